// Layers and groups as plain tables: found by name, sorted, downloaded as CSV.
const csvText = ({ columns, rows }) => [columns, ...rows].map((row) => row.map((cell) => {
  const text = cell === null ? "" : String(cell);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\n") + "\n";

(() => {
  const download = (name, table) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csvText(table)], { type: "text/csv" }));
    link.download = `${head.model}-${name}.csv`.replace(/[^\w.@-]+/g, "_");
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  element("layers-csv").onclick = () => download("layers", data.layers);
  element("groups-csv").onclick = () => download("groups", data.group_table);

  const { columns, rows } = data.layers, place = columns.indexOf("group"), LIMIT = 400;
  const told = columns.map((_, c) => c).filter((c) => rows.some((row) => row[c] !== "" && row[c] !== null));
  const stop = rowKeys(element("layers-view"));
  const titles = { energy_pj: "energy (pJ)", macs: "MACs", macs_executed: "MACs executed" };
  const numeric = columns.map((_, c) => rows.length > 0 && rows.every((row) => typeof row[c] === "number"));
  const sorting = { column: -1, down: false };
  const shown = (row, c) => {
    if (columns[c] === "share") return percent(row[c], 1);
    if (columns[c] === "group") return `<i class="swatch" style="background:${groupColour(row[c])}"></i>${groupName(row[c])}`;
    return numeric[c] ? count(row[c]) : esc(row[c] ?? "");
  };
  const draw = () => {
    const wanted = element("layers-filter").value.trim().toLowerCase();
    const found = rows.filter((row) => !wanted || `${row[0]} ${row[1]} ${row[3]}`.toLowerCase().includes(wanted));
    if (sorting.column >= 0) found.sort((a, b) => {
      const [x, y] = [a[sorting.column], b[sorting.column]], less = x < y ? -1 : x > y ? 1 : 0;
      return sorting.down ? -less : less;
    });
    element("layers-found").textContent = wanted ? `${found.length} of ${rows.length} found` : counted(rows.length, "operator");
    element("layers-view").innerHTML = `<table id="layers-table" role="grid" aria-label="Layers"><thead><tr>${told.map((c) => [columns[c], c]).map(([name, c]) =>
      `<th scope="col" class="${numeric[c] ? "n" : ""}" aria-sort="${c !== sorting.column ? "none" : sorting.down ? "descending" : "ascending"}">
       <button type="button" data-column="${c}">${esc(titles[name] ?? name.replaceAll("_", " "))}${c !== sorting.column ? "" : sorting.down ? " ▾" : " ▴"}</button></th>`).join("")}</tr></thead>
      <tbody>${found.slice(0, LIMIT).map((row) => `<tr class="row" data-layer="${esc(row[0])}" data-home="${row[place]}" aria-selected="false">${
        told.map((c) => `<td class="${numeric[c] ? "n" : ""}">${shown(row, c)}</td>`).join("")}</tr>`).join("")}</tbody></table>${
      found.length > LIMIT ? `<p class="hint">${found.length - LIMIT} more: look for a name, or download all</p>` : ""}`;
    stop();
  };
  element("layers-filter").oninput = draw;
  sortable(element("layers-view"), sorting, (c) => numeric[c], draw, (row) => select(Number(row.dataset.home)));
  draw();
})();
