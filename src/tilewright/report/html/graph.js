// The network as a drawing: boxes, tensors, and a band of colour along every group.
// `drawing` is what other views ask of it: to look at boxes, and to mark what was found.
const ways = { inside: "passed on tile by tile within the group", kept: "stays in the scratchpad for this reader",
  reloaded: "loaded again for this reader; it stays in the scratchpad for others", main: "goes through the main memory" };
const wayOf = (edge) => (edge.memory ? `kept in ${edge.memory}, which the cores share` : ways[edge.way]);
const drawing = (() => {
  const graph = data.graph, [wide, tall] = graph.box, holder = element("graph-view");
  const roleColour = { input: "#fff", output: "#fff" };
  const short = (text, most) => (text.length <= most ? text
    : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(text.length - Math.floor(most / 2))}`);
  const bands = [], edges = [], boxes = [];
  graph.edges.forEach((edge, e) => {
    const a = graph.group[edge.from], b = graph.group[edge.to];
    if (a >= 0 && a === b) {
      bands.push(`<path class="band" data-group="${a}" d="${edge.path}" stroke="${groupColour(a)}"/>`);
    }
    edges.push(`<path class="edge ${edge.resident ? "resident" : edge.way}" data-edge="${e}" data-from="${a}" data-to="${b}"
      d="${edge.path}" marker-end="url(#tip-${edge.resident ? "r" : edge.memory ? "s" : "n"})"/>`);
  });
  graph.name.forEach((name, i) => {
    const group = graph.group[i], role = graph.role[i];
    const x = graph.x[i] - wide / 2, y = graph.y[i] - tall / 2;
    const dash = role === "folded" || role === "view" ? ' stroke-dasharray="4 3"' : "";
    const round = group < 0 ? tall / 2 : role === "view" ? 9 : 4;
    boxes.push(`<g class="box" data-box="${i}" data-group="${group}">
      <rect x="${x}" y="${y}" width="${wide}" height="${tall}" rx="${round}" fill="${roleColour[role] || groupColour(group)}"${dash}/>
      <text class="kind" x="${graph.x[i]}" y="${graph.y[i] - 2}"></text>
      <text class="sub" x="${graph.x[i]}" y="${graph.y[i] + 10}"></text></g>`);
  });
  const marker = (id, colour, size) => `<marker id="tip-${id}" viewBox="0 0 8 8" refX="7.5" refY="4" markerUnits="userSpaceOnUse"
    markerWidth="${size}" markerHeight="${size}" orient="auto"><path d="M0 0L8 4L0 8z" fill="${colour}"/></marker>`;
  holder.innerHTML = `<svg role="img" aria-label="Network of ${counted(graph.name.length, "node")} in ${counted(groups.length, "group")}"
    preserveAspectRatio="xMidYMid meet"><defs>${marker("n", "#7d8894", 7)}${marker("r", "#c2185b", 11)}${marker("s", "#00796b", 11)}</defs>
    <g>${bands.join("")}</g><g>${edges.join("")}</g><g>${boxes.join("")}</g></svg>`;
  const svg = holder.firstElementChild;
  const lines = [["#fff", "input, output"]];
  if (graph.edges.some((edge) => edge.resident)) lines.push(["#c2185b", "tensor kept in the scratchpad between groups", "resident"]);
  if (graph.edges.some((edge) => edge.way === "reloaded")) lines.push(["#b26a00", "loaded again for this reader, kept for others", "reloaded"]);
  [...new Set(graph.edges.map((edge) => edge.memory))].filter(Boolean).forEach((memory) =>
    lines.push(["#00796b", `tensor kept in ${memory} between groups`, "shared memory"]));
  legend("graph-legend", lines);
  element("graph-legend").insertAdjacentHTML("beforeend",
    `<span>dashed: ${term("folded", "folded")} into its neighbour, or a ${term("view")}</span>
     <span id="graph-hint" hidden>zoom in for names</span>`);

  // Letters keep their size on the screen once they are easy to read, so that zooming in shows longer names.
  const written = [...svg.querySelectorAll(".box")].map((box) => [box.querySelector(".kind"), box.querySelector(".sub")]);
  let letters = 0;
  const write = (scale) => {
    const size = Math.min(1, 1.3 / scale);
    if (Math.abs(size / letters - 1) < 0.1) return;
    letters = size;
    svg.style.setProperty("--letters", size);
    const room = (each) => Math.floor((wide - 5) / (each * size));
    written.forEach(([kind, sub], i) => {
      kind.textContent = short(graph.kind[i] || graph.role[i], room(6.2));
      sub.textContent = short(graph.name[i], room(5.2));
    });
  };

  // A short network needs no high panel.
  holder.style.height = `${Math.min(400, Math.max(170, Math.round(holder.clientWidth * graph.height / graph.width)))}px`;
  const look = { x: 0, y: 0, width: graph.width, height: graph.height };
  const apply = () => {
    svg.setAttribute("viewBox", `${look.x} ${look.y} ${look.width} ${look.height}`);
    const scale = Math.min(holder.clientWidth / look.width, holder.clientHeight / look.height);
    svg.classList.toggle("small", scale < 0.42);
    element("graph-hint").hidden = scale >= 0.42;
    if (scale >= 0.42) write(scale);
  };
  const fit = () => { Object.assign(look, { x: 0, y: 0, width: graph.width, height: graph.height }); apply(); };
  const zoom = (factor, px = 0.5, py = 0.5) => {
    const width = Math.min(graph.width * 3, Math.max(60, look.width * factor)), ratio = width / look.width;
    look.x += look.width * (1 - ratio) * px;
    look.y += look.height * (1 - ratio) * py;
    look.width = width;
    look.height *= ratio;
    apply();
  };
  // Where a pointer is, as shares of the visible box (the drawing is centred in the panel).
  const shares = (event) => {
    const inverse = svg.getScreenCTM().inverse();
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(inverse);
    return [(p.x - look.x) / look.width, (p.y - look.y) / look.height];
  };
  const lookAt = (mine) => {
    if (!mine.length) return;
    const xs = mine.map((i) => graph.x[i]), ys = mine.map((i) => graph.y[i]);
    const beside = 1.4 * wide, above = 2 * tall, left = Math.min(...xs) - beside, top = Math.min(...ys) - above;
    Object.assign(look, { x: left, y: top, width: Math.max(...xs) + beside - left, height: Math.max(...ys) + above - top });
    apply();
  };
  const near = () => lookAt(graph.group.flatMap((g, i) => (g === state.group && g !== null ? [i] : [])));
  const mark = (foundBoxes, foundEdges) => {
    svg.querySelectorAll(".found").forEach((part) => part.classList.remove("found"));
    foundBoxes.forEach((i) => svg.querySelector(`[data-box="${i}"]`).classList.add("found"));
    foundEdges.forEach((e) => svg.querySelector(`[data-edge="${e}"]`).classList.add("found"));
  };

  let grabbed = null;
  holder.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), ...shares(event));
  }, { passive: false });
  holder.addEventListener("pointerdown", (event) => { grabbed = { x: event.clientX, y: event.clientY, moved: false }; });
  window.addEventListener("pointermove", (event) => {
    if (!grabbed) return;
    const scale = 1 / svg.getScreenCTM().a, dx = event.clientX - grabbed.x, dy = event.clientY - grabbed.y;
    if (!grabbed.moved && Math.hypot(dx, dy) < 4) return;
    Object.assign(grabbed, { x: event.clientX, y: event.clientY, moved: true });
    look.x -= dx * scale;
    look.y -= dy * scale;
    hideTip();
    apply();
  });
  window.addEventListener("pointerup", (event) => {
    if (grabbed && !grabbed.moved && holder.contains(event.target)) {
      const box = event.target.closest("[data-group]");
      const group = box ? Number(box.dataset.group) : -1;
      if (group >= 0) select(group === state.group ? null : group);
    }
    grabbed = null;
  });
  holder.addEventListener("pointermove", (event) => {
    if (grabbed && grabbed.moved) return;
    const box = event.target.closest("[data-box]"), edge = event.target.closest("[data-edge]");
    if (box) {
      const i = Number(box.dataset.box), group = graph.group[i];
      showTip(event, `<b>${esc(graph.name[i])}</b> ${esc(graph.kind[i])}<br>` + (group < 0 ? `<span>${graph.role[i]} of the network</span>`
        : `<span>${esc(groupTitle(group))}<br>${esc(grid(group))}${graph.host[i] ? `<br>runs in the output stage of ${esc(graph.host[i])}` : ""}</span>`));
    } else if (edge) {
      const drawn = graph.edges[Number(edge.dataset.edge)], { tensor, bytes: size } = drawn;
      showTip(event, `<b>${esc(tensor)}</b><br><span>${size === null ? "" : `${bytes(size)}; `}${esc(wayOf(drawn))}</span>`);
    } else hideTip();
  });
  holder.addEventListener("pointerleave", hideTip);
  holder.addEventListener("keydown", (event) => {
    const shift = (x, y) => { look.x += x * look.width; look.y += y * look.height; apply(); };
    const keys = { "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), 0: fit, ArrowLeft: () => shift(-0.1, 0),
      ArrowRight: () => shift(0.1, 0), ArrowUp: () => shift(0, -0.1), ArrowDown: () => shift(0, 0.1) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  holder.addEventListener("dblclick", (event) => zoom(0.5, ...shares(event)));
  element("graph-in").onclick = () => zoom(0.7);
  element("graph-out").onclick = () => zoom(1 / 0.7);
  element("graph-fit").onclick = fit;
  element("graph-selected").onclick = near;
  new ResizeObserver(apply).observe(holder);
  on("select", () => {
    const chosen = state.group;
    element("graph-selected").disabled = chosen === null;
    svg.querySelectorAll("[data-group]").forEach((part) => {
      const mine = Number(part.dataset.group) === chosen;
      part.classList.toggle("chosen", mine);
      part.classList.toggle("faded", chosen !== null && !mine);
    });
    svg.querySelectorAll(".edge").forEach((part) => part.classList.toggle("faded", chosen !== null
      && Number(part.dataset.from) !== chosen && Number(part.dataset.to) !== chosen));
  });
  fit();
  return { lookAt, mark };
})();
