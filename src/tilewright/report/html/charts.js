// Traffic by group, and the roofline.
(() => {
  const parts = [["read_weights", "weights read", "#d98e2b"], ["read_activations", "activations read", "#e8c35a"], ["written", "written", "#5aa865"]];
  const moved = (group) => parts.reduce((sum, [key]) => sum + group[key], 0);
  const holder = element("traffic-view"), height = 300, left = 62, bottom = 262, top = 14;
  let width = 640;
  legend("traffic-legend", parts.map(([, text, colour]) => [colour, text]));
  const groupTip = (g) => {
    const group = groups[g];
    return `<b>${esc(groupTitle(g))}</b><br>${parts.map(([key, text]) => `${text} ${bytes(group[key])}`).join("<br>")}<br>
      <span>${counted(group.macs, "MAC")} in ${counted(group.end - group.active, "cycle")}</span>`;
  };

  const drawTraffic = () => {
    const most = Math.max(1, ...groups.map(moved)), step = niceStep(most, 5), slot = (width - left - 10) / groups.length;
    const y = (amount) => bottom - amount / most * (bottom - top);
    const out = [], spare = slot > 6 ? 0.2 : 0;
    for (let amount = 0; amount <= most * 1.001; amount += step) {
      out.push(`<line class="axis" x1="${left}" x2="${width - 8}" y1="${y(amount)}" y2="${y(amount)}"/>
        <text class="tick" x="${left - 6}" y="${y(amount) + 4}" text-anchor="end">${bytes(amount)}</text>`);
    }
    const every = Math.ceil(24 * groups.length / (width - left));
    groups.forEach((group, g) => {
      let level = 0;
      const bars = parts.map(([key, , colour]) => {
        const bar = `<rect x="${left + g * slot + slot * spare / 2}" width="${slot * (1 - spare)}" y="${y(level + group[key])}"
          height="${Math.max(0, y(level) - y(level + group[key]))}" fill="${colour}"/>`;
        level += group[key];
        return bar;
      });
      out.push(`<g class="part" data-group="${g}"><rect x="${left + g * slot}" width="${slot}" y="${top}" height="${bottom - top}" fill="#fff" fill-opacity="0"/>${bars.join("")}</g>`);
      if (g % every === 0) out.push(`<text class="tick" x="${left + (g + 0.5) * slot}" y="${bottom + 15}" text-anchor="middle">${g}</text>`);
    });
    out.push(`<text class="tick" x="${(left + width) / 2}" y="${height - 6}" text-anchor="middle">group</text>`);
    holder.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Main-memory bytes by group">${out.join("")}</svg>`;
  };

  const roof = element("roofline-view");
  const drawRoofline = () => {
    const peak = machine.roofs.macs_per_cycle, rate = machine.roofs.bytes_per_cycle;
    const dots = groups.flatMap((group, g) => {
      const cycles = group.end - group.active;
      return group.macs > 0 && cycles > 0 ? [{ g, intensity: moved(group) ? group.macs / moved(group) : Infinity, speed: group.macs / cycles, cycles: group.adds }] : [];
    });
    const finite = dots.map((dot) => dot.intensity).filter(Number.isFinite);
    const ridge = peak && rate ? peak / rate : 1;
    const xLow = Math.floor(Math.log10(Math.min(ridge / 4, ...finite))), xHigh = Math.ceil(Math.log10(Math.max(ridge * 4, ...finite)) + 0.05);
    const speeds = dots.map((dot) => dot.speed), topSpeed = Math.max(peak || 1, ...speeds);
    const yLow = Math.floor(Math.log10(Math.min(topSpeed / 20, ...speeds))), yHigh = Math.log10(topSpeed) + 0.25;
    const x = (value) => left + (Math.log10(value) - xLow) / (xHigh - xLow) * (width - left - 14);
    const y = (value) => bottom - (Math.log10(value) - yLow) / (yHigh - yLow) * (bottom - top);
    const out = [];
    const plain = (value) => (value >= 1 ? count(value) : String(Number(value.toPrecision(1))));
    for (let k = xLow; k <= xHigh; k += 1) out.push(`<line class="axis" x1="${x(10 ** k)}" x2="${x(10 ** k)}" y1="${top}" y2="${bottom}"/><text class="tick" x="${x(10 ** k)}" y="${bottom + 15}" text-anchor="${k === xHigh ? "end" : "middle"}">${plain(10 ** k)}</text>`);
    for (let k = yLow; k <= yHigh; k += 1) out.push(`<line class="axis" x1="${left}" x2="${width - 14}" y1="${y(10 ** k)}" y2="${y(10 ** k)}"/><text class="tick" x="${left - 6}" y="${y(10 ** k) + 4}" text-anchor="end">${plain(10 ** k)}</text>`);
    if (peak && rate) {
      const start = Math.max(10 ** xLow, 10 ** yLow / rate);
      out.push(`<path d="M${x(start)} ${y(start * rate)}L${x(ridge)} ${y(peak)}H${x(10 ** xHigh)}" fill="none" stroke="currentColor" stroke-width="2"/>
        <text class="tick" x="${width - 18}" y="${y(peak) - 6}" text-anchor="end">${count(peak)} MAC/cycle</text>
        <text class="tick" x="${(x(start) + x(ridge)) / 2 - 8}" y="${(y(start * rate) + y(peak)) / 2 - 4}" text-anchor="end">${rate.toFixed(1)} B/cycle</text>`);
    }
    const most = Math.max(1, ...dots.map((dot) => dot.cycles));
    dots.sort((a, b) => b.cycles - a.cycles);
    for (const dot of dots) {
      const at = Number.isFinite(dot.intensity) ? x(dot.intensity) : width - 18;
      out.push(`<circle class="part" data-group="${dot.g}" cx="${at}" cy="${y(dot.speed)}" r="${3.5 + 9 * Math.sqrt(dot.cycles / most)}" fill="${groupColour(dot.g)}" fill-opacity="0.85" stroke="#0007"/>`);
    }
    out.push(`<text class="tick" x="${(left + width) / 2}" y="${height - 6}" text-anchor="middle">MACs per byte of main memory</text>
      <text class="tick" transform="translate(12 ${(top + bottom) / 2}) rotate(-90)" text-anchor="middle">MACs per cycle</text>`);
    roof.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Roofline of the groups">${out.join("")}</svg>`;
    const without = groups.length - dots.length;
    element("roofline-facts").textContent = `While a group computes; loads ahead of it can lift it above the slope`
      + (without ? `; ${without} without MACs` : "");
  };

  // As wide as they are shown, so that letters keep their size on a phone.
  const shown = () => Math.max(320, Math.min(640, holder.clientWidth));
  const fade = () => document.querySelectorAll("#traffic-view .part, #roofline-view .part").forEach((part) => {
    part.style.opacity = isFaded(Number(part.dataset.group)) ? 0.22 : 1;
  });
  const draw = () => {
    width = shown();
    drawTraffic();
    drawRoofline();
    fade();
  };
  new ResizeObserver(() => {
    if (width !== shown()) draw();
  }).observe(holder);
  draw();
  for (const view of [holder, roof]) {
    view.addEventListener("pointermove", (event) => {
      const part = event.target.closest("[data-group]");
      if (part) showTip(event, groupTip(Number(part.dataset.group))); else hideTip();
    });
    view.addEventListener("pointerleave", hideTip);
    view.addEventListener("click", (event) => {
      const part = event.target.closest("[data-group]");
      if (part) select(Number(part.dataset.group) === state.group ? null : Number(part.dataset.group));
    });
  }
  on("select", fade);
})();
