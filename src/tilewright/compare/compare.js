// Plans side by side: figures, both runs on one scale of time, and what differs, the largest first.
const data = JSON.parse(document.getElementById("data").textContent);
const term = explainWords(data.terms);
const signed = (value) => `${value > 0 ? "+" : ""}${count(value)}`;
const signedBytes = (value) => (value === 0 ? "0 B" : `${value > 0 ? "+" : "−"}${bytes(Math.abs(value))}`);
const energy = (pj) => (pj === null ? "–" : pj >= 1e9 ? `${Number((pj / 1e9).toPrecision(3))} mJ` : `${Number((pj / 1e6).toPrecision(3))} µJ`);
const csvText = ({ columns, rows }) => [columns, ...rows].map((row) => row.map((cell) => {
  const text = cell === null ? "" : String(cell);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\n") + "\n";

const before = data.sides[0], sideName = (side, letter) => `${letter}: ${esc(side.name)}`;
const linked = (side) => (side.report ? ` <a href="${esc(side.report)}">report</a>` : "");
element("head").innerHTML = `<h1>${esc(data.title)}</h1><dl class="sides">${data.sides.map((side, s) =>
  `<dt>${String.fromCharCode(65 + s)}</dt><dd>${esc(side.name)}: ${esc(side.model)} on ${esc(side.machine)}${side.dtype ? `, ${esc(side.dtype)}` : ""}; ${counted(side.count, "group")}${linked(side)}</dd>`).join("")}</dl>`;

function pair(index) {
  const { after: number, headline, notes, regions, figures } = data.pairs[index], after = data.sides[number];
  const letters = ["A", String.fromCharCode(65 + number)], id = (name) => `${name}-${index}`;
  const cards = [["Latency", "cycles", (v) => `${count(v)} cycles`], ["Main-memory traffic", "bytes", bytes], ["Energy", "energy", energy]]
    .map(([name, key, text]) => [name, before[key], after[key], text])
    .map(([name, a, b, text]) => `<div class="card"><span class="name">${name}</span><b>${a && b !== null ? `${(b / a).toFixed(3)}×` : "–"}</b><span>${text(a)} → ${text(b)}</span></div>`);
  const places = regions.flatMap((region, r) => [...region.before.map((g) => [`0 ${g}`, r]), ...region.after.map((g) => [`1 ${g}`, r])]);
  const regionOf = new Map(places), colourOf = (r) => (r === undefined ? "#cfd6dd" : palette[regions[r].place % palette.length]);
  const told = before.groups.length > 0 && after.groups.length > 0;
  const holder = document.createElement("section");
  holder.className = "compared";
  holder.setAttribute("aria-label", `${letters[0]} and ${letters[1]}`);
  holder.innerHTML = `<h2>${esc(headline)}</h2>${notes.length ? `<ul>${notes.map((text) => `<li>${esc(text)}</li>`).join("")}</ul>` : ""}
    <div class="cards">${cards.join("")}</div>
    <section${told ? "" : " hidden"}><h3>Both runs on one scale <small>a block is a ${term("group")}, as wide as the cycles it adds; one colour is one part of the network that differs, grey is the same in both; click to select</small></h3>
     <div class="panel ribbons" id="${id("ribbons")}"></div></section>
    <section><h3>What differs <small>${told ? "the largest first; cycles add up to the difference in latency" : "in the order of the network"}</small></h3>
     <div class="tools"><label>find <input type="search" id="${id("filter")}" placeholder="node"></label><span class="grow" id="${id("found")}" role="status" aria-live="polite"></span>
      <button type="button" id="${id("csv")}">Download as CSV</button></div>
     <div class="panel scroll tall" id="${id("causes")}"></div></section>
    <section><h3>Figures</h3><div class="panel scroll"><table class="figures" aria-label="Figures"><thead><tr><th scope="col">figure</th><th scope="col" class="n">${letters[0]}</th><th scope="col" class="n">${letters[1]}</th><th scope="col" class="n">ratio</th></tr></thead><tbody>${
      figures.map(([name, a, b, ratio]) => `<tr><td>${esc(name)}</td><td class="n">${esc(a)}</td><td class="n">${esc(b)}</td><td class="n">${esc(ratio)}</td></tr>`).join("")}</tbody></table></div></section>`;
  element("pairs").append(holder);

  let chosen = null;
  const choose = (r) => {
    chosen = r === chosen ? null : r;
    holder.querySelectorAll(".ribbons [data-region]").forEach((part) => {
      part.classList.toggle("chosen", Number(part.dataset.region) === chosen && part.classList.contains("part"));
      part.classList.toggle("faded", chosen !== null && Number(part.dataset.region) !== chosen);
    });
    holder.querySelectorAll("tr.row").forEach((row) => {
      const mine = Number(row.dataset.region) === chosen;
      row.classList.toggle("chosen", mine);
      row.setAttribute("aria-selected", mine);
    });
    holder.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" });
  };

  const ribbons = element(id("ribbons"));
  const draw = () => {
    const width = Math.max(280, ribbons.clientWidth - 24), left = 22, most = Math.max(before.cycles, after.cycles, 1), x = (c) => left + c / most * (width - left - 2);
    const spans = [new Map(), new Map()], out = [];
    [before, after].forEach((side, s) => {
      let at = 0;
      const top = s ? 74 : 4;
      out.push(`<text x="2" y="${top + 17}">${letters[s]}</text>`);
      side.groups.forEach((group, g) => {
        const r = regionOf.get(`${s} ${g}`), from = at;
        at += group.cycles;
        if (r !== undefined) spans[s].set(r, [...(spans[s].get(r) ?? []), [from, at]]);
        out.push(`<rect class="part" data-side="${s}" data-number="${g}" data-region="${r ?? -1}" x="${x(from)}" y="${top}" width="${Math.max(0.6, x(at) - x(from))}" height="26" fill="${colourOf(r)}"/>`);
      });
    });
    regions.forEach((_, r) => {
      const [a, b] = spans.map((side) => side.get(r));
      if (!a || !b) return;
      const [a0, a1, b0, b1] = [a[0][0], a.at(-1)[1], b[0][0], b.at(-1)[1]].map(x);
      out.unshift(`<path class="link" data-region="${r}" fill="${colourOf(r)}" d="M${a0} 31H${a1}L${b1} 73H${b0}Z"/>`);
    });
    ribbons.innerHTML = `<svg viewBox="0 0 ${width} 104" height="104" role="img" aria-label="Groups of both runs, one after the other">${out.join("")}</svg>`;
  };
  ribbons.addEventListener("pointermove", (event) => {
    const part = event.target.closest(".part");
    if (!part) { hideTip(); return; }
    const group = data.sides[Number(part.dataset.side) ? number : 0].groups[Number(part.dataset.number)];
    showTip(event, `<b>${esc(group.nodes.slice(0, 3).join(", "))}${group.nodes.length > 3 ? ` and ${group.nodes.length - 3} more` : ""}</b><br>
      adds ${counted(group.cycles, "cycle")}; moves ${bytes(group.bytes)}<br><span>${esc(group.how)}</span>`);
  });
  ribbons.addEventListener("pointerleave", hideTip);
  ribbons.addEventListener("click", (event) => {
    const part = event.target.closest(".part");
    if (part && Number(part.dataset.region) >= 0) choose(Number(part.dataset.region));
  });
  new ResizeObserver(draw).observe(ribbons);
  draw();

  const view = element(id("causes")), stop = rowKeys(view), largest = Math.max(...regions.map((r) => Math.abs(r.cycles)), 1);
  const columns = ["part", "nodes", "groups before", "groups after", "cycles", "bytes", "energy pj", "what"];
  const list = () => {
    const wanted = element(id("filter")).value.trim().toLowerCase();
    const shown = regions.map((region, r) => [region, r]).filter(([region]) => !wanted || region.nodes.some((name) => name.toLowerCase().includes(wanted)));
    element(id("found")).textContent = wanted ? `${shown.length} of ${regions.length} found` : counted(regions.length, "part");
    view.innerHTML = `<table class="causes${told ? "" : " untold"}" role="grid" aria-label="What differs"><thead><tr><th scope="col">part of the network</th><th scope="col" class="delta-cell of-parts"><span aria-hidden="true">±</span></th>
      <th scope="col" class="n of-parts">cycles</th><th scope="col" class="n of-parts">bytes</th><th scope="col">what is different</th></tr></thead><tbody>${shown.map(([region, r]) =>
      `<tr class="row${r === chosen ? " chosen" : ""}" data-region="${r}" aria-selected="${r === chosen}" title="${esc(region.nodes.join(", "))}"><td><i class="swatch" style="background:${colourOf(r)}"></i>${esc(region.label)}</td>
       <td class="delta-cell of-parts"><span class="delta ${region.cycles > 0 ? "more" : "less"}" style="width:${Math.round(96 * Math.abs(region.cycles) / largest)}px"></span></td>
       <td class="n of-parts">${signed(region.cycles)}</td><td class="n of-parts">${signedBytes(region.bytes)}</td>
       <td>${region.what.length ? `<ul>${region.what.map((text) => `<li>${esc(text)}</li>`).join("")}</ul>` : "the same decisions"}</td></tr>`).join("")}</tbody></table>`;
    stop();
  };
  view.addEventListener("click", (event) => {
    const row = event.target.closest("tr.row");
    if (row) choose(Number(row.dataset.region));
  });
  element(id("filter")).oninput = list;
  element(id("csv")).onclick = () => {
    const rows = regions.map((r) => [r.label, r.nodes.join(" "), r.before.length, r.after.length, r.cycles, r.bytes, r.energy_pj, r.what.join("; ")]);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csvText({ columns, rows })], { type: "text/csv" }));
    link.download = "compare.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  list();
}

data.pairs.forEach((_, index) => pair(index));
listWords(element("words-list"), data.terms, data.words);
document.documentElement.dataset.ready = "yes";
