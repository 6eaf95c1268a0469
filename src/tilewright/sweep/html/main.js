// The headline; then everything is in place. A link may name a point: sweep.html#point=17.
(() => {
  const bad = data.ok.reduce((sum, ok) => sum + !ok, 0);
  const best = (name) => figures[name].reduce((least, x) => (x !== null && (least === null || x < least) ? x : least), null);
  const cards = [["points", count(total), bad ? `${count(bad)} without a plan` : "all planned"],
    ["on the front", count(views.length ? views[0].rows.length : 0), views.length ? views[0].label : ""],
    ["least latency", figureText("latency_ms", best("latency_ms")), ""],
    ["least energy", figureText("energy_pj", best("energy_pj")), ""]];
  element("head").innerHTML = `<h1>${esc(data.name)} <small>sweep over ${esc(axes.filter((axis) => axis.values.length > 1).map((axis) => `${axis.name} (${axis.values.length})`).join(", "))}</small></h1>
    <div class="cards">${cards.map(([name, value, text]) => `<div class="card"><span class="name">${esc(name)}</span><b>${esc(value)}</b><span>${esc(text)}</span></div>`).join("")}</div>`;
})();
element("filter").addEventListener("input", () => { state.filter = element("filter").value; refilter(); });
element("unselect").onclick = () => {
  Object.assign(state, { filter: "", brushes: {} });
  element("filter").value = "";
  refilter();
};
const wanted = /point=(\d+)/.exec(location.hash);
const linked = wanted ? data.number.indexOf(Number(wanted[1])) : -1;
choose(linked >= 0 ? linked : views.length && views[0].knee !== null ? views[0].knee : null);
document.documentElement.dataset.ready = "yes";
