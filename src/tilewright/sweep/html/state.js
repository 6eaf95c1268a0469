// The sweep's data, what is chosen, and which points are kept.
const data = JSON.parse(document.getElementById("data").textContent);
const { axes, codes, figures } = data;
const total = data.number.length;
const figureNames = Object.keys(figures).filter((name) => figures[name].some((x) => x !== null));
const axisOf = Object.fromEntries(axes.map((axis) => [axis.name, axis]));
const leaders = axes.filter((axis) => axis.along === null && axis.values.length > 1);

const short = (x) => (x === null || x === undefined ? "–"
  : Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(3) : String(Number(x.toPrecision(5))));
const figureText = (name, x) => (x === null ? "–" : name.endsWith("_bytes") ? bytes(x)
  : name.endsWith("_cycles") ? count(x) : name === "latency_ms" ? `${short(x)} ms`
    : name === "energy_pj" ? `${short(x / 1e6)} µJ` : short(x));
const valueText = (name, row) => axisOf[name].values[codes[name][row]];

// ---- what is drawn: the rows of one workload, or machines over all of them
const views = data.fronts.map((front) => ({ ...front, machines: false }));
if (data.together) views.unshift({ ...data.together, machines: true });
const loads = axes.filter((axis) => axis.workload).map((axis) => axis.name);
const sameLoad = (a, b) => loads.every((name) => codes[name][a] === codes[name][b]);
const allRows = Array.from({ length: total }, (_, row) => row);

function itemsOf(view) {
  if (view.machines) return { rows: data.machines.row, figures: data.machines.figures };
  const rows = allRows.filter((row) => data.ok[row] && sameLoad(row, view.rows[0]));
  const own = {};
  for (const name of figureNames) own[name] = rows.map((row) => figures[name][row]);
  return { rows, figures: own };
}

const state = { view: 0, row: null, filter: "", brushes: {}, keep: () => true };
let items = views.length ? itemsOf(views[0]) : { rows: [], figures: {} };
const listeners = { view: [], row: [], keep: [] };
const on = (what, listener) => listeners[what].push(listener);
const tell = (what) => listeners[what].forEach((listener) => listener());

function chooseView(view) {
  state.view = view;
  items = itemsOf(views[view]);
  tell("view");
}

function choose(row) {
  state.row = row;
  tell("row");
}

// ---- a number for each point on a drawn axis: where a parameter stands, or how large a figure is
const isAxis = (name) => name in axisOf;
function scaleOf(name) {
  if (isAxis(name)) return { low: 0, high: Math.max(1, axisOf[name].values.length - 1) };
  const known = items.figures[name].filter((x) => x !== null);
  let low = Infinity, high = -Infinity;
  for (const x of known) { low = Math.min(low, x); high = Math.max(high, x); }
  return { low, high: high > low ? high : low + (Math.abs(low) || 1) };
}
const at = (name, item) => (isAxis(name) ? codes[name][items.rows[item]] : items.figures[name][item]);

// ---- which points are kept: words and comparisons of the filter, and pieces of axes
const compare = { "<": (a, b) => a < b, ">": (a, b) => a > b, "=": (a, b) => a === b };
function test(term) {
  const parts = /^([\w.]+)([<>=])(.+)$/.exec(term);
  if (parts && (isAxis(parts[1]) || parts[1] in figures)) {
    const [, name, sign, wanted] = parts;
    if (isAxis(name)) {
      const numbers = axisOf[name].numbers;
      return (row) => (sign === "=" && (valueText(name, row).toLowerCase() === wanted.toLowerCase() || valueText(name, row).replace(/ /g, "").toLowerCase() === wanted.toLowerCase()))
        || (numbers !== null && compare[sign](numbers[codes[name][row]], Number(wanted)));
    }
    return (row) => figures[name][row] !== null && compare[sign](figures[name][row], Number(wanted));
  }
  const word = term.toLowerCase();
  return (row) => axes.some((axis) => valueText(axis.name, row).toLowerCase().includes(word))
    || data.key[row].startsWith(word) || data.reasons[data.reason[row]].toLowerCase().includes(word);
}

function refilter() {
  const tests = state.filter.split(/\s+/).filter(Boolean).map(test);
  for (const [name, [low, high]] of Object.entries(state.brushes)) {
    tests.push((row) => {
      const x = isAxis(name) ? codes[name][row] : figures[name][row];
      return x !== null && x >= low && x <= high;
    });
  }
  state.keep = tests.length ? (row) => tests.every((passes) => passes(row)) : () => true;
  const kept = tests.length ? allRows.reduce((sum, row) => sum + state.keep(row), 0) : total;
  element("chosen").textContent = kept === total ? "" : `${count(kept)} of ${counted(total, "point")}`;
  element("unselect").hidden = !tests.length;
  tell("keep");
}

const pointTip = (row) => `<b>point ${data.number[row]}</b><br>${axes.map((axis) => `${esc(axis.name)} ${esc(valueText(axis.name, row))}`).join("<br>")}`;
