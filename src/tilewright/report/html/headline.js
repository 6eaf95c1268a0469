// The headline, how the plan compares, and how busy the engines were.
(() => {
  const total = head.dram_read_bytes + head.dram_write_bytes;
  const bound = data.story.bounds.reduce((best, b) => (b[1] > best[1] ? b : best), ["", 0]);
  const base = head.baseline;
  const energy = (pj) => (pj >= 1e9 ? `${Number((pj / 1e9).toPrecision(3))} mJ` : `${Number((pj / 1e6).toPrecision(3))} µJ`);
  const cards = [];
  const card = (name, value, detail, word = null) => cards.push(
    `<div class="card"><span class="name">${word ? term(word, name) : esc(name)}</span><b>${esc(value)}</b><span>${esc(detail)}</span></div>`);
  card("Latency", time(head.latency_cycles), `${counted(head.latency_cycles, "cycle")} at ${Math.round(machine.clock_hz / 1e6)} MHz`);
  if (base) card("Speed-up", `${(base.latency_cycles / head.latency_cycles).toFixed(2)}×`,
    `against ${base.name}, ${time(base.latency_cycles)}`);
  if (bound[1]) card("Times the strongest lower bound", `${(head.latency_cycles / bound[1]).toFixed(2)}×`,
    `${time(bound[1])}, by “${bound[0]}”`, "lower bound");
  card("Main-memory traffic", bytes(total), [
    head.compulsory_bytes ? `${(total / head.compulsory_bytes).toFixed(2)}× of the ${bytes(head.compulsory_bytes)} that must move` : "",
    base && base.dram_bytes ? `${percent(1 - total / base.dram_bytes)} less than ${base.name}` : "",
  ].filter(Boolean).join("; "));
  const source = head.energy_estimate ? "estimate" : "by the machine's figures";
  if (head.energy_pj) card("Energy", energy(head.energy_pj), source);
  else card("Energy", "not counted", "the machine has no figures for it");
  const adapted = head.legalised.length ? `<details class="adapted"><summary>Adapted to the machine's limits: ${head.legalised.length} step${head.legalised.length > 1 ? "s" : ""}</summary>
    <ul>${head.legalised.map(([node, limit, outcome, what]) => `<li><b>${esc(node)}</b> (${esc(limit)}, ${esc(outcome)}): ${esc(what)}</li>`).join("")}</ul></details>` : "";
  const searched = head.search_line ? `<p id="searched"${head.interrupted ? ` class="warn"` : ""}>Search: ${esc(head.search_line)}</p>` : "";
  const warned = [...head.notes, ...head.warnings].map((text) => `<p class="warn">${esc(text)}</p>`).join("");
  element("head").innerHTML = `<h1>${esc(head.model)} on ${esc(head.machine)}${esc(head.mark)}
    <small>${esc(head.title)}; ${esc(head.dtype)}; ${counted(groups.length, "group")}, ${counted(tasks.start.length, "task")},
    ${counted(buffers.size.length, "buffer")}</small></h1>
    <p class="verified${head.failed ? " failed" : head.verified ? "" : " not"}">${head.failed ? "✗ " : head.verified ? "✓ " : ""}${esc(head.verified_line)}</p>${searched}${warned}${adapted}
    <div class="cards">${cards.join("")}</div>`;

  const panels = [];
  const rods = (rows, text, most) => `<div class="bars">${rows.map((row) =>
      `<span>${term(row.name)}</span><div class="rod${row.own ? " own" : ""}" style="width:${100 * row.value / most}%"></div>
       <span class="n" title="${esc(text(row))}">${esc(text(row))}</span>`).join("")}</div>`;
  const bars = (title, rows, text, most = Math.max(...rows.map((row) => row.value), 1), more = "") => {
    panels.push(`<div class="panel"><h2>${title}</h2>${rods(rows, text, most)}${more}</div>`);
  };
  const own = { name: "this plan", value: head.latency_cycles, moved: total, own: true };
  const ways = (list) => list.map(([name, value, moved]) => ({ name, value, moved,
    own: value === head.latency_cycles && moved === total }));
  const both = (row) => `${time(row.value)}, ${bytes(row.moved)}`;
  if (data.story.rivals.length) {
    const rivals = ways(data.story.rivals);
    if (!rivals.some((row) => row.own)) rivals.push(own);
    bars("Against other ways to run it", rivals, both);
  }
  if (data.story.ablation.length) bars("What each choice buys", ways(data.story.ablation), both);
  bars(term("lower bound", "Lower bounds"), [own, ...data.story.bounds.filter(([, value]) => value > 0).map(([name, value]) => ({ name, value }))],
    (row) => `${time(row.value)} (${percent(row.value / head.latency_cycles)})`);
  const waited = ([reason, which]) => which === null ? reason
    : `waits for ${reason.includes("bandwidth") ? machine.pools[which] : machine.engines[which].name}`;
  const idleMost = (engines) => {
    const sums = new Map();
    for (const part of engines.flatMap((engine) => engine.idle)) sums.set(waited(part), (sums.get(waited(part)) ?? 0) + part[2]);
    const [most] = [...sums].sort((a, b) => b[1] - a[1]);
    return most && most[1] ? `, ${most[0]}` : "";
  };
  // Many engines: one row for those that differ by a number only, each of them on demand.
  const every = machine.engines.map((engine) => ({ name: engine.name, value: engine.busy, engines: [engine] }));
  const alike = new Map();
  for (const row of every) {
    const name = row.name.replace(/\d+/g, "*");
    alike.set(name, [...(alike.get(name) ?? []), row]);
  }
  const rows = (every.length <= 8 ? every.map((row) => [row]) : [...alike.values()]).map((many) => ({
    name: many.length > 1 ? `${many.length} × ${many[0].name.replace(/\d+/g, "*")}` : many[0].name,
    value: many.reduce((sum, row) => sum + row.value, 0) / many.length,
    engines: many.flatMap((row) => row.engines),
    least: Math.min(...many.map((row) => row.value)), most: Math.max(...many.map((row) => row.value)),
  }));
  const busy = (row) => {
    const range = row.engines.length > 1 ? ` (${Math.round(100 * row.least / makespan)}–${percent(row.most / makespan)})` : "";
    return `${percent(row.value / makespan)}${range}${idleMost(row.engines)}`;
  };
  const details = rows.length < every.length
    ? `<details id="every-engine"><summary>Each of the ${every.length}</summary><div class="many">${rods(every, busy, makespan)}</div></details>` : "";
  bars("Busy engines and links", rows, busy, makespan, details);
  element("story").innerHTML = panels.join("");
})();
