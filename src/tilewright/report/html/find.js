// Search: a node or a tensor by a part of its name, shown in the graph and wherever its group is.
(() => {
  const graph = data.graph, box = element("find"), list = element("find-list"), told = element("found"), MOST = 12;
  const entries = graph.name.flatMap((name, i) => (graph.group[i] < 0 ? [] : [{ name, what: graph.kind[i] || "node", boxes: [i], edges: [], group: graph.group[i] }]));
  const tensors = new Map();
  graph.edges.forEach((edge, e) => tensors.set(edge.tensor, [...(tensors.get(edge.tensor) ?? []), e]));
  for (const [name, edges] of tensors) {
    const { from, bytes: size } = graph.edges[edges[0]];
    entries.push({ name, what: "tensor", size, boxes: [from, ...edges.map((e) => graph.edges[e].to)], edges, group: graph.group[from] });
  }
  const constants = new Map();
  buffers.role.forEach((role, b) => { if (role === 2) constants.set(buffers.value[b], { size: buffers.size[b], group: -1 }); });
  buffers.value.forEach((value, b) => { if (constants.has(value) && buffers.group[b] >= 0) constants.get(value).group = buffers.group[b]; });
  for (const [value, { size, group }] of constants) {
    const boxes = graph.group.flatMap((g, i) => (g === group && g >= 0 ? [i] : []));
    entries.push({ name: strings[value], what: "weights", size, boxes, edges: [], group });
  }

  const box_ = (i) => `${graph.name[i]}${graph.group[i] < 0 ? "" : ` (${groupName(graph.group[i])})`}`;
  const sentence = ({ name, what, size, boxes, edges, group }) => {
    const much = size === undefined || size === null ? "" : `, ${bytes(size)}`;
    if (what === "weights") return `${name}: weights${much}${group < 0 ? "" : `, read by ${groupTitle(group)}`}`;
    if (what !== "tensor") return `${name}: ${what} of ${groupTitle(group)}, ${grid(group)}`;
    return `${name}: tensor${much}, from ${box_(boxes[0])}. ${edges.map((e) => `To ${box_(graph.edges[e].to)}: ${wayOf(graph.edges[e])}`).join(". ")}.`;
  };
  const show = (entry) => {
    close();
    box.value = entry.name;
    select(entry.group < 0 ? null : entry.group);
    drawing.mark(entry.boxes, entry.edges);
    drawing.lookAt(entry.boxes);
    told.textContent = sentence(entry);
    element("graph").scrollIntoView({ block: "start" });
  };

  let found = [], at = -1;
  const close = () => { list.hidden = true; at = -1; box.setAttribute("aria-expanded", "false"); box.removeAttribute("aria-activedescendant"); };
  const point = (to) => {
    at = (to + found.length) % found.length;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", i === at));
    box.setAttribute("aria-activedescendant", `find-${at}`);
    list.children[at].scrollIntoView({ block: "nearest" });
  };
  const look = () => {
    const wanted = box.value.trim().toLowerCase();
    if (!wanted) { close(); return; }
    const all = entries.filter((entry) => entry.name.toLowerCase().includes(wanted));
    const rank = (entry) => (entry.name.toLowerCase() === wanted ? 0 : entry.name.toLowerCase().startsWith(wanted) ? 1 : 2);
    found = all.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
    list.innerHTML = found.map(({ name, what, group }, i) => `<li role="option" id="find-${i}" aria-selected="false" data-entry="${i}">
      <span>${esc(name)}</span> <small>${esc(what)}${group < 0 ? "" : `, ${groupName(group)}`}</small></li>`).join("");
    told.textContent = !all.length ? `nothing is called like “${box.value}”` : all.length > MOST ? `${all.length} found, the first ${MOST} are listed` : `${all.length} found`;
    list.hidden = !found.length;
    at = -1;
    box.setAttribute("aria-expanded", String(!list.hidden));
  };
  box.addEventListener("input", look);
  box.addEventListener("focus", () => { if (box.value && list.hidden) look(); });
  box.addEventListener("blur", () => setTimeout(close, 150));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { close(); return; }
    if (!found.length || list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); point(at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1)); }
    if (event.key === "Enter") { event.preventDefault(); show(found[Math.max(0, at)]); }
  });
  list.addEventListener("pointerdown", (event) => {
    const item = event.target.closest("[data-entry]");
    if (item) { event.preventDefault(); show(found[Number(item.dataset.entry)]); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); box.focus(); box.select(); }
  });
  on("select", () => { if (state.group === null) { drawing.mark([], []); told.textContent = ""; } });
  listWords(element("words-list"), data.terms, Object.keys(data.terms));
})();
