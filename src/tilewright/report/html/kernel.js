"use strict";
// The page of one kernel: everything is drawn from the columns in its data.
const data = JSON.parse(document.getElementById("data").textContent);
const { head, listing, facts, ladder, tasks } = data;
const element = (id) => document.getElementById(id);
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const esc = (text) => String(text).replace(/[&<>"']/g, (c) => escapes[c]);
const count = (value) => Math.round(value).toLocaleString("en-US");
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
const palette = ["#7aa6d8", "#f2a65a", "#7fc08a", "#d98aa6", "#b39ddb", "#e3c94b", "#6fc3c9", "#c49a7a", "#a0b85c", "#e88873"];

function bytes(amount) {
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (amount >= factor) return `${(amount / factor).toFixed(amount >= 100 * factor ? 0 : 1)} ${unit}`;
  }
  return `${amount} B`;
}

function time(us) {
  if (us >= 1000) return `${Number((us / 1000).toPrecision(4))} ms`;
  return us >= 1 ? `${Number(us.toPrecision(4))} µs` : `${Number((us * 1000).toPrecision(3))} ns`;
}

const tip = element("tip");
function showTip(event, html) {
  tip.innerHTML = html;
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), room = 14;
  const left = event.clientX + room + box.width > innerWidth ? event.clientX - room - box.width : event.clientX + room;
  tip.style.left = `${Math.max(2, left)}px`;
  tip.style.top = `${Math.min(event.clientY + room, innerHeight - box.height - 4)}px`;
}
const hideTip = () => { tip.hidden = true; };
const legend = (id, entries) => {
  element(id).innerHTML = entries.map(([colour, text]) =>
    `<span><i class="swatch" style="background:${colour}"></i>${esc(text)}</span>`).join("");
};
const table = (label, heads, rows) => `<table aria-label="${label}"><thead><tr>${heads.map(([name, right]) =>
  `<th scope="col"${right ? ' class="n"' : ""}>${esc(name)}</th>`).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
const cell = (text, right = true) => `<td${right ? ' class="n"' : ""}>${esc(text)}</td>`;

// ---- headline
(() => {
  const card = (name, value, detail) =>
    `<div class="card"><span class="name">${esc(name)}</span><b>${esc(value)}</b><span>${esc(detail)}</span></div>`;
  const [low, high] = facts.interval_us;
  const cards = [
    card("Predicted time", time(facts.predicted_us), high > 1.001 * low ? `${time(low)} to ${time(high)}, by what the compiler removes` : "no load is redundant"),
    card("Above the tensor engine's floor", percent(facts.predicted_us / facts.floor_us - 1, 1), `${time(facts.floor_us)} with ${facts.operands} operands`),
    card("Binding", facts.binding, `next: ${facts.next_binding}`),
    card("Transfers", `${count(facts.dma_count)} DMAs`, bytes(facts.dma_bytes)),
    card("SBUF", percent(facts.sbuf.bytes_per_partition / facts.sbuf.of_bytes), `${count(facts.sbuf.bytes_per_partition)} of ${count(facts.sbuf.of_bytes)} B per partition; ${facts.psum.banks} of ${facts.psum.of_banks} PSUM banks`),
  ];
  const broken = facts.violations.map((v) => `<p class="warn"><b>Illegal</b>, rule ${esc(v.rule)}: ${esc(v.text)}</p>`).join("");
  const lints = facts.lints.map((l) => `<p class="warn">${esc(l.operand)}: ${esc(l.text)}</p>`).join("");
  element("head").innerHTML = `<h1>${esc(head.problem)} <small>nest “${esc(facts.nest)}” on ${esc(head.machine)}: ${esc(head.title)}</small></h1>
    <p class="verified${head.proved ? "" : " not"}">${head.proved ? "✓ " : ""}${esc(head.proof)}</p>${broken}
    <div class="cards">${cards.join("")}</div>${lints}`;
})();

// ---- listing
(() => {
  const most = Math.max(...listing.map((line) => line.us));
  element("listing-view").innerHTML = table(
    "The nest",
    [["code"], ["engine"], ["times", true], ["bytes", true], ["run", true], ["busy", true], ["held", true]],
    listing.map((line) => `<tr class="${line.kind}${line.us === most && most > 0 ? " hot" : ""}"><td>${"  ".repeat(line.depth)}${esc(line.text)}</td>${cell(line.engine, false)}${
      cell(line.count ? count(line.count) : "")}${cell(line.bytes ? bytes(line.bytes) : "")}${cell(line.run ? `${count(line.run)} B` : "")}${
      cell(line.us ? time(line.us) : "")}${cell(line.held ? `${count(line.held)} B` : "")}</tr>`));
})();

// ---- engines and transfers
(() => {
  const rows = Object.entries(facts.engines_us), most = Math.max(...rows.map((row) => row[1]));
  element("engines-view").innerHTML = `<div class="bars">${rows.map(([name, us]) => `<span>${esc(name)}</span>
    <div class="rod${name === facts.binding ? " own" : ""}" style="width:${100 * us / most}%"></div>
    <span class="n">${time(us)}, ${count(facts.engine_cycles[name])} cycles</span>`).join("")}</div>
    <p class="hint">PSUM flushes ${count(facts.psum_flushes)}; ${facts.instructions.map((w) => `${esc(w.what)} ${count(w.count)}`).join(", ")}.</p>`;
  element("transfers-view").innerHTML = table("Transfers", [["operand"], ["DMAs", true], ["bytes", true], ["run", true], ["each tile", true]],
    facts.transfers.map((t) => `<tr>${cell(t.operand, false)}${cell(count(t.dma_count))}${cell(bytes(t.bytes))}${cell(`${count(t.run_bytes)} B`)}${cell(`${count(t.repeats)}×`)}</tr>`));
})();

// ---- timeline
(() => {
  const view = element("time-view");
  element("time-what").textContent = data.timeline_text;
  if (!tasks.start.length) { view.innerHTML = '<p class="hint">This kernel has too many tasks to be simulated.</p>'; return; }
  const end = Math.max(...tasks.end), tracks = data.tracks, kinds = data.kinds;
  const colour = (kind) => palette[kind % palette.length];
  const state = { from: 0, to: end };
  legend("time-legend", kinds.map((kind, k) => [colour(k), kind]));
  const width = 1200, left = 62, lane = 40, top = 26, height = top + lane * tracks.length;
  const draw = () => {
    const scale = (width - left - 8) / (state.to - state.from), out = [];
    tracks.forEach((name, t) => out.push(`<rect x="${left}" y="${top + t * lane + 4}" width="${width - left - 8}" height="${lane - 8}" class="lane"/>
      <text x="${left - 6}" y="${top + t * lane + lane / 2 + 4}" text-anchor="end" font-size="12">${esc(name)}</text>`));
    const step = 10 ** Math.floor(Math.log10((state.to - state.from) / 2));
    for (let k = Math.ceil(state.from / step); k * step <= state.to && k - state.from / step < 40; k += 1) {
      const x = left + (k * step - state.from) * scale;
      out.push(`<line class="axis" x1="${x}" x2="${x}" y1="${top - 6}" y2="${height}"/><text class="tick" x="${x}" y="${top - 10}" text-anchor="middle">${time(k * step)}</text>`);
    }
    tasks.start.forEach((start, i) => {
      if (tasks.end[i] < state.from || start > state.to) return;
      const x = left + (Math.max(start, state.from) - state.from) * scale;
      const w = Math.max(0.4, (Math.min(tasks.end[i], state.to) - Math.max(start, state.from)) * scale);
      out.push(`<rect data-task="${i}" x="${x}" y="${top + tasks.track[i] * lane + 6}" width="${w}" height="${lane - 12}" fill="${colour(tasks.kind[i])}"${w > 3 ? ' stroke="#0004" stroke-width="0.5"' : ""}/>`);
    });
    view.innerHTML = `<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="Engines over time">${out.join("")}</svg>`;
    element("time-range").textContent = `${time(state.from)} – ${time(state.to)}`;
  };
  const show = (from, to) => {
    const length = Math.min(end, Math.max(end / 5000, to - from)), start = Math.min(Math.max(0, from), end - length);
    Object.assign(state, { from: start, to: start + length });
    draw();
  };
  const zoom = (factor, at = (state.from + state.to) / 2) => show(at - (at - state.from) * factor, at + (state.to - at) * factor);
  const move = (share) => show(state.from + share * (state.to - state.from), state.to + share * (state.to - state.from));
  const at = (event) => {
    const box = view.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * width;
    return state.from + (x - left) / (width - left - 8) * (state.to - state.from);
  };
  let grabbed = null;
  view.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.3 : 0.77, at(event)); }, { passive: false });
  view.addEventListener("pointerdown", (event) => { grabbed = { at: at(event) }; view.setPointerCapture(event.pointerId); });
  view.addEventListener("pointerup", () => { grabbed = null; });
  view.addEventListener("pointermove", (event) => {
    if (grabbed) { const shift = grabbed.at - at(event); show(state.from + shift, state.to + shift); return; }
    const i = event.target.dataset?.task;
    if (i === undefined) { hideTip(); return; }
    showTip(event, `<b>${esc(tasks.name[i])}</b><br>${time(tasks.start[i])} – ${time(tasks.end[i])} <span>(${time(tasks.end[i] - tasks.start[i])})</span>${tasks.bytes[i] ? `<br>${bytes(tasks.bytes[i])}` : ""}`);
  });
  view.addEventListener("pointerleave", hideTip);
  view.addEventListener("keydown", (event) => {
    const keys = { "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), 0: () => show(0, end) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  element("time-in").onclick = () => zoom(0.5);
  element("time-out").onclick = () => zoom(2);
  element("time-left").onclick = () => move(-0.3);
  element("time-right").onclick = () => move(0.3);
  element("time-reset").onclick = () => show(0, end);
  draw();
})();

// ---- memory
(() => {
  const held = facts.sbuf.held, places = facts.sbuf.over_loops.map((row) => row.at);
  legend("ledger-legend", held.map((h, k) => [palette[k % palette.length], h.buffer]));
  const limit = Math.max(facts.sbuf.of_bytes, facts.sbuf.bytes_per_partition);
  const rows = places.map((place, depth) => {
    const parts = held.map((h, k) => places.indexOf(h.at) <= depth
      ? `<i style="width:${100 * h.bytes * h.copies / limit}%;background:${palette[k % palette.length]}" title="${esc(h.buffer)}: ${h.copies} × ${count(h.bytes)} B at ${esc(h.at)}"></i>` : "").join("");
    return `<span>${esc(place)}</span><div class="stack">${parts}</div><span class="n">${count(facts.sbuf.over_loops[depth].bytes)} B</span>`;
  });
  const banks = Object.entries(facts.psum.held).map(([name, many], k) =>
    `<i style="width:${100 * many / Math.max(facts.psum.of_banks, facts.psum.banks)}%;background:${palette[(k + 4) % palette.length]}" title="${esc(name)}: ${many} banks"></i>`).join("");
  element("ledger-view").innerHTML = `<div class="bars">${rows.join("")}
    <span>PSUM</span><div class="stack">${banks}</div><span class="n">${facts.psum.banks} of ${facts.psum.of_banks} banks (${
    Object.entries(facts.psum.held).map(([name, many]) => `${esc(name)} ${many}`).join(", ")})</span></div>`;
})();

// ---- search
(() => {
  const found = data.search;
  if (!found) return;
  element("search").hidden = element("search-link").hidden = false;
  element("search-what").textContent = `${count(found.looked_at)} nests looked at, ${count(found.legal)} legal; ${time(found.found_us)}, the ladder's last rung ${time(found.last_rung_us)}`;
  const us = (value) => (value === null ? "illegal" : time(value));
  element("search-view").innerHTML = table("What each choice buys", [["choice"], ["ladder's last rung"], ["found"], ["alone", true], ["without it", true], ["moved without it", true], ["note"]],
    found.changes.map((c) => `<tr>${cell(c.what, false)}${cell(c.before, false)}${cell(c.after, false)}${cell(us(c.alone_us))}${cell(us(c.without_us))}${cell(c.without_bytes === null ? "" : bytes(c.without_bytes))}${cell(c.note, false)}</tr>`))
    + `<p class="hint">${percent(found.above_floor, 1)} above the floor of the tensor engine: ${esc(found.held_back_by)}. One after the other: ${
      [time(found.last_rung_us), ...found.steps.map((s) => `${esc(s.what)} ${us(s.us)}`)].join(" → ")}.</p>`;
})();

// ---- ladder
(() => {
  const rows = ladder.rungs, line = 34, left = 250, right = 130, width = 1000, height = rows.length * line + 30;
  const all = rows.flatMap((r) => [r.modelled_us, ...r.interval_us, ...[r.measured_us ?? r.modelled_us].flat()]);
  const low = Math.log10(Math.min(...all)) - 0.15, high = Math.log10(Math.max(...all)) + 0.05;
  const x = (us) => left + (Math.log10(us) - low) / (high - low) * (width - left - right);
  const out = [];
  for (let k = Math.ceil(low); k <= high; k += 1) out.push(`<line class="axis" x1="${x(10 ** k)}" x2="${x(10 ** k)}" y1="0" y2="${height - 22}"/><text class="tick" x="${x(10 ** k)}" y="${height - 6}" text-anchor="middle">${time(10 ** k)}</text>`);
  rows.forEach((r, i) => {
    const y = i * line + 4, measured = r.measured_us === null ? null : [r.measured_us].flat();
    out.push(`<text x="${left - 8}" y="${y + 17}" text-anchor="end" font-size="12">${esc(`${r.name}, ${r.dtype}${r.pool > 1 ? `, pool ${r.pool}` : ""}, ${r.image}`)}</text>`);
    if (measured) {
      out.push(`<rect class="measured" x="${left}" y="${y}" width="${x(measured[0]) - left}" height="11" fill="#8f9aa6"/>`);
      if (measured.length > 1) out.push(`<rect x="${x(measured[0])}" y="${y}" width="${x(measured[1]) - x(measured[0])}" height="11" fill="#8f9aa6" fill-opacity="0.45"/>`);
    }
    out.push(`<rect class="modelled" x="${left}" y="${y + 13}" width="${x(r.modelled_us) - left}" height="11" fill="${r.fitted ? "#8aa8d8" : "#0b57d0"}"/>`);
    if (r.interval_us[1] > 1.001 * r.interval_us[0]) out.push(`<line x1="${x(r.interval_us[0])}" x2="${x(r.interval_us[1])}" y1="${y + 18.5}" y2="${y + 18.5}" stroke="#1c2733" stroke-width="1.4"/>`);
    const error = r.error === null ? "" : ` (${r.error >= 0 ? "+" : ""}${(100 * r.error).toFixed(1)} %)`;
    out.push(`<text class="tick" x="${width - right + 8}" y="${y + 17}">${time(r.modelled_us)}${error}</text>`);
  });
  element("ladder-view").innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Rungs, measured and modelled">${out.join("")}</svg>`;
  legend("ladder-legend", [["#8f9aa6", "measured (pale: range)"], ["#8aa8d8", "modelled, row was fitted on"], ["#0b57d0", "modelled, not fitted"]]);
  element("parameters-view").innerHTML = table("Parameters", [["parameter"], ["value", true], ["unit"], ["kind"], ["source"]],
    ladder.parameters.map((p) => `<tr>${cell(p.name, false)}${cell(p.value)}${cell(p.unit, false)}${cell(p.kind, false)}${cell(p.source, false)}</tr>`));
})();

element("nest-view").textContent = data.nest;
document.documentElement.dataset.ready = "yes";
