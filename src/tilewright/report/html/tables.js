// The table of groups, the tiles of one group, and the tasks of one tile.
(() => {
  const busyShare = (group, k) => {
    const window = (group.end - group.active) * group.engines[k];
    return window ? group.busy[k] / window : 0;
  };
  const traffic = (group) => group.read_weights + group.read_activations + group.written;
  const label = (g) => [groupName(g), String(g), groups[g].nodes[0]];
  const reasonsOf = (g) => data.story.reasons.filter((r) => label(g).includes(r.before));
  const meter = (share) => `<span class="meter"><i style="width:${Math.min(100, 100 * share)}%"></i></span>${percent(share)}`;
  const columns = [
    ["group", "", (g) => g, (g) => `<i class="swatch" style="background:${groupColour(g)}"></i>${groupName(g)}`, "group"],
    ["nodes", "", (g) => groups[g].nodes.length, (g) => {
      const { nodes } = groups[g];
      return `${esc(nodes.slice(0, 3).join(", "))}${nodes.length > 3 ? ` <span class="more">and ${nodes.length - 3} more</span>` : ""}`;
    }, ""],
    ["grid", "", (g) => grid(g), (g) => `<span title="${esc(groups[g].note)}">${esc(grid(g))}</span>`, "grid"],
    ["tiles", "n", (g) => groups[g].tiles, (g) => count(groups[g].tiles), "tile"],
    ["halo", "n", (g) => groups[g].halo ?? -1, (g) => (groups[g].halo === null ? "–" : percent(groups[g].halo, 1)), "halo"],
    ["adds cycles", "n", (g) => groups[g].adds, (g) => count(groups[g].adds), "adds cycles"],
    ["matrix", "n", (g) => busyShare(groups[g], 0), (g) => meter(busyShare(groups[g], 0)), "matrix"],
    ["vector", "n", (g) => busyShare(groups[g], 1), (g) => meter(busyShare(groups[g], 1)), "vector"],
    ["copies", "n", (g) => busyShare(groups[g], 2), (g) => meter(busyShare(groups[g], 2)), "copies"],
    ["traffic", "n", (g) => traffic(groups[g]), (g) => bytes(traffic(groups[g])), "bytes moved"],
    ["peak", "n", (g) => groups[g].peak, (g) => bytes(groups[g].peak), "peak"],
    ["notes", "", (g) => groups[g].binding + groups[g].note, (g) => {
      const ends = reasonsOf(g).map((r) => `ends before ${esc(r.after)}: ${term(r.kind, r.kind, false)}`);
      return [groups[g].binding && `bound by ${esc(groups[g].binding)}`, ...ends.slice(0, 2),
        ends.length > 2 ? `and ${ends.length - 2} more <a href="#reasons">boundaries</a>` : ""].filter(Boolean).join("; ");
    }, "boundary"],
  ];
  const told = groups.some((group, g) => group.note || group.binding || reasonsOf(g).length);
  const shown = columns.filter(([name]) => name !== "notes" || told);

  const groupStop = rowKeys(element("groups-view")), tileStop = rowKeys(element("tiles-view")), taskStop = rowKeys(element("tasks-view"));
  const sorting = { column: 0, down: false };
  const drawGroups = () => {
    const wanted = element("groups-filter").value.trim().toLowerCase();
    const found = groups.map((_, g) => g).filter((g) => !wanted || groups[g].nodes.some((name) => name.toLowerCase().includes(wanted)));
    const value = shown[sorting.column][2], order = found.sort((a, b) => {
      const [x, y] = [value(a), value(b)], less = x < y ? -1 : x > y ? 1 : a - b;
      return sorting.down ? -less : less;
    });
    element("groups-view").innerHTML = `<table id="groups-table" role="grid" aria-label="Groups"><thead><tr>${shown.map(([name, kind, , , word], c) =>
      `<th scope="col" class="${kind}" aria-sort="${c !== sorting.column ? "none" : sorting.down ? "descending" : "ascending"}">
       <button type="button" data-column="${c}"${word ? ` data-term="${word}" aria-describedby="tip"` : ""}>${name}${c !== sorting.column ? "" : sorting.down ? " ▾" : " ▴"}</button></th>`).join("")}</tr></thead>
      <tbody>${order.map((g) => `<tr class="row${g === state.group ? " chosen" : ""}" data-group="${g}" aria-selected="${g === state.group}" title="${esc(groups[g].nodes.join(", "))}">${
        shown.map(([, kind, , cell]) => `<td class="${kind}">${cell(g)}</td>`).join("")}</tr>`).join("")}</tbody></table>`;
    groupStop();
  };
  element("groups-filter").oninput = drawGroups;
  sortable(element("groups-view"), sorting, (c) => shown[c][1] === "n", drawGroups, (row) => {
    const group = Number(row.dataset.group);
    select(group === state.group && state.tile === null ? null : group);
  });

  const chooser = element("tiles-group");
  chooser.innerHTML = `<option value="">choose a group</option>${groups.map((_, g) =>
    `<option value="${g}">${esc(groupTitle(g).slice(0, 70))}</option>`).join("")}`;
  chooser.onchange = () => select(chooser.value === "" ? null : Number(chooser.value));

  const STEP = 400; // rows at once: more on demand
  let rowsShown = STEP;
  const tileRows = (group) => {
    const found = new Map();
    for (const t of tasksOf(group)) {
      const tile = tasks.tile[t];
      if (!found.has(tile)) found.set(tile, { tile, label: tileLabel(t).slice(1), start: Infinity, end: 0, tasks: 0, moved: 0, engine: "" });
      const row = found.get(tile);
      row.start = Math.min(row.start, tasks.start[t]);
      row.end = Math.max(row.end, tasks.end[t]);
      row.tasks += 1;
      row.moved += tasks.moved[t];
      if (tasks.kind[t] < 2) row.engine = machine.engines[tasks.engine[t]].name.split(".")[0];
    }
    return [...found.values()].sort((a, b) => a.tile - b.tile);
  };
  const more = (rows) => (rows.length > rowsShown ? `<p class="hint"><button type="button" class="more-rows">Show ${Math.min(STEP, rows.length - rowsShown)} more of ${rows.length}</button></p>` : "");
  const region = (v) => {
    const { value, shape, item, strides, memory, at } = viewText(v);
    return `<code>${esc(value)} [${esc(shape)}] of ${item} B, strides (${esc(strides)}) at ${esc(memory)}+${count(at)}</code>`;
  };
  const drawTiles = () => {
    const group = state.group;
    chooser.value = group === null ? "" : String(group);
    element("tiles-facts").textContent = group === null ? "" : `${groups[group].nodes.join(", ").slice(0, 160)}; ${grid(group)}`
      + (groups[group].core_splits.length ? `; split over the cores along ${groups[group].core_splits.map((k) => groups[group].splits[k][0]).join(" and ")}${groups[group].shares.length ? ` in shares ${groups[group].shares.join(":")}` : ""}` : "");
    if (group === null) {
      element("tiles-view").innerHTML = '<p class="hint">Choose a group here, in the table, the graph or the timeline.</p>';
      element("tasks-view").innerHTML = '<p class="hint">The tasks of a tile: their times, regions, strides and addresses.</p>';
      return;
    }
    const rows = tileRows(group);
    if (!rows.length) {
      element("tiles-view").innerHTML = `<p class="hint">${groups[group].place === "view" ? "A view of what is there already: nothing is computed or moved." : "No tasks."}</p>`;
      element("tasks-view").innerHTML = "";
      return;
    }
    element("tiles-view").innerHTML = `<table id="tiles-table" role="grid" aria-label="Tiles"><thead><tr><th scope="col" class="n">tile</th><th scope="col">position</th><th scope="col">core</th><th scope="col" class="n">start</th><th scope="col" class="n">cycles</th><th scope="col" class="n">moved</th></tr></thead><tbody>${
      rows.slice(0, rowsShown).map((row) => `<tr class="row${row.tile === state.tile ? " chosen" : ""}" data-tile="${row.tile}" aria-selected="${row.tile === state.tile}"><td class="n">${row.tile}</td><td>${esc(row.label)}</td><td>${esc(row.engine)}</td>
        <td class="n">${count(row.start)}</td><td class="n">${count(row.end - row.start)}</td><td class="n">${bytes(row.moved)}</td></tr>`).join("")}</tbody></table>${more(rows)}`;
    const tile = state.tile === null ? rows[0].tile : state.tile;
    const list = tasksOf(group).filter((t) => tasks.tile[t] === tile).sort((a, b) => tasks.start[a] - tasks.start[b] || a - b);
    element("tasks-view").innerHTML = `<table id="tasks-table" role="grid" aria-label="Tasks of a tile"><thead><tr><th scope="col">task of tile ${tile}</th><th scope="col">engine</th><th scope="col" class="n">start</th><th scope="col" class="n">end</th><th scope="col" class="n">bytes</th><th scope="col">reads, then writes</th></tr></thead><tbody>${
      list.slice(0, STEP).map((t) => `<tr class="row${t === state.task ? " chosen" : ""}" data-task="${t}" aria-selected="${t === state.task}"><td>${esc(taskName(t))}</td><td>${esc(machine.engines[tasks.engine[t]].name)}</td>
        <td class="n">${count(tasks.start[t])}</td><td class="n">${count(tasks.end[t])}</td><td class="n">${tasks.moved[t] ? count(tasks.moved[t]) : ""}</td>
        <td>${tasks.reads[t].map(region).join("<br>")}<br>→ ${tasks.writes[t].map(region).join("<br>→ ")}</td></tr>`).join("")}</tbody></table>${
      list.length > STEP ? `<p class="hint">The first ${STEP} of ${list.length} tasks.</p>` : ""}`;
    tileStop();
    taskStop();
    const chosen = element("tasks-view").querySelector("tr.chosen");
    element("tasks-view").scrollTop = chosen ? Math.max(0, chosen.offsetTop - 60) : 0;
  };
  const choose = (event) => {
    if (event.target.closest(".more-rows")) { rowsShown += STEP; drawTiles(); return; }
    const tile = event.target.closest("tr[data-tile]"), task = event.target.closest("tr[data-task]");
    if (tile) {
      const kept = element("tiles-view").scrollTop;
      select(state.group, Number(tile.dataset.tile));
      element("tiles-view").scrollTop = kept;
      showGroup(state.group, state.tile);
    } else if (task) {
      const t = Number(task.dataset.task), kept = element("tasks-view").scrollTop;
      select(state.group, tasks.tile[t], t);
      element("tasks-view").scrollTop = kept;
    }
  };
  for (const id of ["tiles-view", "tasks-view"]) {
    element(id).addEventListener("click", choose);
  }

  if (data.story.reasons.length) {
    element("reasons").hidden = false;
    element("reasons-link").hidden = false;
    element("reasons-tried").textContent = data.story.tried;
    const explained = (text) => text.split("rule of thumb").map(esc).join(term("rule of thumb", "rule of thumb", false));
    element("reasons-view").innerHTML = `<table id="reasons-table" aria-label="Why groups end where they do"><thead><tr><th scope="col">tensors</th><th scope="col">before</th><th scope="col">after</th><th scope="col">kind</th><th scope="col">reason</th><th scope="col" class="n">joined, the run takes</th></tr></thead><tbody>${
      data.story.reasons.map((r) => `<tr><td>${esc(r.boundary)}</td><td>${esc(r.before)}</td><td>${esc(r.after)}</td><td>${term(r.kind, r.kind, false)}</td><td>${explained(r.text)}</td><td class="n">${r.trial_cycles === null ? "" : counted(r.trial_cycles, "cycle")}</td></tr>`).join("")}</tbody></table>`;
  }

  let before = null;
  on("select", () => {
    if (state.group !== before) rowsShown = STEP;
    before = state.group;
    element("groups-view").querySelectorAll("tr[data-group]").forEach((row) => {
      row.classList.toggle("chosen", Number(row.dataset.group) === state.group);
      row.setAttribute("aria-selected", Number(row.dataset.group) === state.group);
    });
    drawTiles();
    element("chosen").innerHTML = state.group === null ? ""
      : `<i class="swatch" style="background:${groupColour(state.group)}"></i>${esc(groupTitle(state.group))}${state.tile === null ? "" : `, tile ${state.tile}`}`;
    element("unselect").hidden = state.group === null;
  });
  element("unselect").onclick = () => select(null);
  drawGroups();
  drawTiles();
})();
