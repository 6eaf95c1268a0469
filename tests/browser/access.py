"""What people need who use a keyboard, a screen reader, or eyes that want contrast: a small checker
of pages. Names and roles come from the browser's own accessibility tree; the rest is measured."""

from typing import Any

from devtools import Browser

NAMED = frozenset(
    "button link checkbox combobox searchbox textbox listbox option image img application grid"
    " table region navigation slider radio".split()
)
CONTRAST, LARGE_CONTRAST = 4.5, 3.0  # least ratios of text to what is behind it, by WCAG AA
LEAST_TARGET = 24  # pixels of what is to be hit, by WCAG AA; words within text may be smaller

_FAULTS = """(() => {
  const faults = [], name = (e) => `${e.tagName.toLowerCase()}${e.id ? `#${e.id}` : ""}.${e.getAttribute("class") ?? ""}`;
  const seen = new Set();
  for (const e of document.querySelectorAll("[id]")) { if (seen.has(e.id)) faults.push(`two elements are #${e.id}`); seen.add(e.id); }
  for (const key of ["aria-controls", "aria-labelledby", "aria-describedby", "for"]) {
    for (const e of document.querySelectorAll(`[${key}]`)) {
      for (const id of e.getAttribute(key).split(/\\s+/)) if (!document.getElementById(id)) faults.push(`${name(e)}: ${key} leads to no #${id}`);
    }
  }
  if (!document.documentElement.lang) faults.push("the page has no language");
  if (!document.title) faults.push("the page has no title");
  if (document.querySelectorAll("main").length !== 1) faults.push("the page has no single <main>");
  if (document.querySelectorAll("h1").length !== 1) faults.push("the page has no single <h1>");
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getBoundingClientRect().width > 0;
  let level = 0;
  for (const e of document.querySelectorAll("h1,h2,h3,h4")) {
    if (!shown(e)) continue;
    const own = Number(e.tagName[1]);
    if (own > level + 1) faults.push(`heading '${e.innerText}' skips a level`);
    level = own;
  }
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) faults.push(`${name(e)}: tabindex above 0`);
  for (const e of document.querySelectorAll("th")) if (!e.scope) faults.push(`th '${e.innerText}' has no scope`);
  for (const e of document.querySelectorAll("button,select,input:not([type=checkbox]),nav a")) {
    if (!shown(e) || e.matches(".term, th button")) continue;
    const { height } = e.getBoundingClientRect();
    if (height < TARGET) faults.push(`${name(e)} is ${height} px high`);
  }
  for (const e of document.querySelectorAll(".scroll")) {
    if (shown(e) && e.scrollHeight > e.clientHeight + 1 && !e.querySelector("[tabindex='0'],button,a,input") && e.tabIndex < 0) faults.push(`${name(e)} cannot be scrolled by keys`);
  }
  return faults;
})()"""  # noqa: E501

_CONTRAST = """(() => {
  const clamp = (c) => Math.min(1, Math.max(0, c));
  const parse = (text) => { const n = text.match(/[0-9.]+/g).map(Number); return { rgb: n.slice(0, 3).map((c) => c / 255), alpha: n.length > 3 ? n[3] : 1 }; };
  const over = (top, under) => top.rgb.map((c, i) => c * top.alpha + under[i] * (1 - top.alpha));
  const lightness = (rgb) => { const [r, g, b] = rgb.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  // The one filter that pages use for dark drawings: invert(x), then hue-rotate(180deg).
  const filtered = (rgb, filter) => {
    const inverted = /invert\\(([0-9.]+)\\)/.exec(filter);
    if (!inverted) return rgb;
    const share = Number(inverted[1]), [r, g, b] = rgb.map((c) => share + c * (1 - 2 * share));
    return [-0.574 * r + 1.43 * g + 0.144 * b, 0.426 * r + 0.43 * g + 0.144 * b, 0.426 * r + 1.43 * g - 0.856 * b].map(clamp);
  };
  const filterOf = (e) => { for (let at = e; at; at = at.parentElement) { const f = getComputedStyle(at).filter; if (f && f !== "none") return f; } return ""; };
  const paper = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const c = parse(getComputedStyle(at).backgroundColor);
      if (c.alpha > 0) layers.push(c);
      if (c.alpha === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [1, 1, 1]);
  };
  const faults = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || e.matches(":disabled, script, style, noscript, .skip")) continue;
    const style = getComputedStyle(e), svg = e.ownerSVGElement;
    if (style.display === "none" || [...function* () { for (let at = e; at; at = at.parentElement) yield at; }()].some((at) => Number(getComputedStyle(at).opacity) < 1)) continue;
    const filter = filterOf(e);
    const spot = e.getBoundingClientRect(), inside = (r) => { const box = r.getBoundingClientRect(), x = spot.x + spot.width / 2, y = spot.y + spot.height / 2; return box.left < x && x < box.right && box.top < y && y < box.bottom; };
    const rect = svg ? [...e.parentElement.querySelectorAll(":scope > rect")].filter((r) => inside(r) && parse(getComputedStyle(r).fill).alpha > 0 && getComputedStyle(r).fillOpacity > 0).at(-1) : null;
    let under = svg ? paper(svg.parentElement) : paper(e);
    if (rect) under = filtered(over(parse(getComputedStyle(rect).fill), [1, 1, 1]), filter);
    const ink = filtered(over(parse(svg ? style.fill : style.color), under), filter);
    const [a, b] = [lightness(ink), lightness(under)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 600);
    if (ratio < (large ? LARGE : SMALL)) faults.push(`'${node.data.trim().slice(0, 30)}' (${e.tagName.toLowerCase()}.${e.getAttribute("class") ?? ""}) has a contrast of ${ratio.toFixed(2)}`);
  }
  return [...new Set(faults)];
})()"""  # noqa: E501


def faults(page: Browser) -> list[str]:
    """What is wrong with the page as it is now, in words."""
    found: list[str] = page.run(_FAULTS.replace("TARGET", str(LEAST_TARGET)))
    script = _CONTRAST.replace("LARGE", str(LARGE_CONTRAST)).replace("SMALL", str(CONTRAST))
    return [*found, *_nameless(page), *page.run(script)]


def faults_light_and_dark(page: Browser) -> dict[str, list[str]]:
    """Faults in both colour schemes, where there are any."""
    found: dict[str, list[str]] = {}
    for scheme in ("light", "dark"):
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        page.call("Emulation.setEmulatedMedia", features=media)
        page.settle()
        if told := faults(page):
            found[scheme] = told
    page.call("Emulation.setEmulatedMedia", features=[])
    return found


def _nameless(page: Browser) -> list[str]:
    """Parts that a screen reader would announce without a name."""
    nodes: list[dict[str, Any]] = page.call("Accessibility.getFullAXTree")["nodes"]
    found: list[str] = []
    for node in nodes:
        role = node.get("role", {}).get("value", "")
        named = str(node.get("name", {}).get("value", "")).strip()
        if not node.get("ignored") and role in NAMED and not named:
            found.append(f"a {role} has no name")
    return found


def stops(page: Browser, most: int = 200) -> list[dict[str, Any]]:
    """Where the Tab key leads, one after the other, until it leaves the page: `order` is the place
    in the document, `seen` whether the focus can be seen."""
    page.run("(() => { document.activeElement?.blur(); scrollTo(0, 0); })()")
    found: list[dict[str, Any]] = []
    for _ in range(most):
        for kind in ("rawKeyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                      windowsVirtualKeyCode=9)  # fmt: skip
        stop = page.run(
            "(() => { const e = document.activeElement; if (!e || e === document.body) return null;"
            "const style = getComputedStyle(e), box = e.getBoundingClientRect();"
            "return { id: e.id, tag: e.tagName, text: (e.innerText ?? '').slice(0, 30),"
            "order: [...document.querySelectorAll('*')].indexOf(e),"
            "seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1.5"
            " && box.width > 0 && box.height > 0 }; })()"
        )
        if stop is None or (found and stop["order"] <= found[0]["order"]):
            break
        found.append(stop)
    return found
