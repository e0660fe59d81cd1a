// Lights groups of GPUs, redraws the pipeline for other numbers, and turns the page dark or light.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;
const KINDS = { ".": "idle", "~": "fold" };
const plans = JSON.parse(document.getElementById("plans").textContent);

document.querySelectorAll("article[data-run]").forEach((article) => {
  const plan = plans[Number(article.dataset.run)];
  if (plan.topology) lightGroups(article.querySelector(".topology"), plan.topology);
  if (plan.pipeline) movePipeline(article.querySelector(".pipeline"), plan.pipeline);
});
themeButton(document.getElementById("theme"));

function themeButton(button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
}

function lightGroups(section, topology) {
  const cells = cellsByRank(section);
  const input = section.querySelector(".chooser input");
  const words = section.querySelector(".lit");
  const light = (rank) => {
    cells.forEach((cell, each) => cell.setAttribute("class", classes(topology, rank, each)));
    words.textContent = groupWords(topology, rank);
  };
  input.parentElement.hidden = false;
  input.addEventListener("input", () => light(within(input.value, topology.world)));
  cells.forEach((cell, rank) => {
    cell.addEventListener("pointerenter", () => light(rank));
    cell.addEventListener("pointerleave", () => light(within(input.value, topology.world)));
    cell.addEventListener("click", () => { input.value = rank; light(rank); });
  });
}

function cellsByRank(section) {
  const cells = new Map();
  section.querySelectorAll(".box svg").forEach((box) => {
    box.querySelectorAll("rect").forEach((cell, index) => cells.set(Number(box.dataset.first) + index, cell));
  });
  return cells;
}

function within(text, world) {
  return Math.min(world - 1, Math.max(0, Math.trunc(Number(text)) || 0));
}

function firstOf(axis, rank) {
  return rank - (Math.floor(rank / axis.stride) % axis.ranks) * axis.stride;
}

function isMember(axis, rank, other) {
  const steps = (other - firstOf(axis, rank)) / axis.stride;
  return Number.isInteger(steps) && steps >= 0 && steps < axis.ranks;
}

function classes(topology, rank, other) {
  if (rank === other) return "self";
  return topology.axes.filter((axis) => isMember(axis, rank, other)).map((axis) => `axis-${axis.axis}`).join(" ");
}

function groupWords(topology, rank) {
  const place = `GPU ${rank} (${topology.box} ${Math.floor(rank / topology.domain)}): `;
  const groups = topology.axes.map((axis) => `${axis.name} with ${listed(axis, firstOf(axis, rank))}`);
  return place + (groups.join("; ") || "no group");
}

function listed(axis, first) {
  const ranks = Array.from({ length: Math.min(axis.ranks, 3) }, (_, index) => first + index * axis.stride);
  const last = first + (axis.ranks - 1) * axis.stride;
  if (axis.stride === 1) return `${first}-${last}`;
  return axis.ranks <= 3 ? ranks.join(", ") : `${ranks.join(", ")} ... ${last}`;
}

function movePipeline(section, pipeline) {
  const inputs = { microbatches: slider(section, "microbatches"), stages: slider(section, "stages") };
  section.querySelector(".sliders").hidden = false;
  const chosen = (name) => (inputs[name] ? Number(inputs[name].value) : 0);
  const redraw = () => {
    const numbers = { microbatches: pipeline.microbatches[chosen("microbatches")], stages: pipeline.stages[chosen("stages")] };
    const stop = pipeline.at[chosen("stages")][chosen("microbatches")];
    Object.entries(inputs).forEach(([name, input]) => { if (input) tell(input, numbers[name]); });
    section.querySelector(".idle-now").textContent =
      `${pipeline.schedule}, ${numbers.stages} stages, ${numbers.microbatches} micro-batches: ` +
      `each stage idles ${stop.shown} of a step, ${stop.formula}`;
    section.querySelector(".timeline").replaceChildren(...timeline(pipeline, stop));
  };
  Object.values(inputs).forEach((input) => input && input.addEventListener("input", redraw));
}

function slider(section, name) {
  return section.querySelector(`.sliders input[id^="${name}-"]`);
}

function tell(input, number) {
  input.parentElement.querySelector("output").textContent = number;
  input.setAttribute("aria-valuetext", number);
}

function timeline(pipeline, stop) {
  if (stop.picture === null) return [paragraph(`the order of ${pipeline.schedule} with these numbers is not drawn`)];
  const rows = made("div", "rows passes");
  const picture = pipeline.pictures[stop.picture];
  picture.rows.forEach((row, index) => rows.append(stageRow(stop.names[index], row)));
  return [rows, paragraph(picture.left_out)];
}

function stageRow(name, row) {
  const line = made("div", "row");
  const label = made("div", "");
  const picture = made("div", "");
  label.textContent = name;
  picture.append(rowPicture(row, `stage ${name}`));
  line.append(label, picture, made("div", ""));
  return line;
}

function rowPicture(row, label) {
  const picture = document.createElementNS(SVG, "svg");
  const units = [...row].filter((letter) => letter !== "~").length;
  const idle = [...row].filter((letter) => letter === ".").length;
  picture.setAttribute("class", "bar");
  picture.setAttribute("viewBox", `0 0 ${WIDTH} 10`);
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `${label}: idle in ${idle} of ${units} drawn units`);
  for (const stretch of row.matchAll(/(.)\1*/g)) picture.append(rectangle(stretch.index, stretch[0], WIDTH / row.length));
  return picture;
}

function rectangle(start, stretch, unit) {
  const drawn = document.createElementNS(SVG, "rect");
  drawn.setAttribute("x", start * unit);
  drawn.setAttribute("y", 0);
  drawn.setAttribute("width", stretch.length * unit);
  drawn.setAttribute("height", 10);
  drawn.setAttribute("class", `pass-${KINDS[stretch[0]] || stretch[0]}`);
  return drawn;
}

function made(name, kind) {
  const node = document.createElement(name);
  if (kind) node.className = kind;
  return node;
}

function paragraph(text) {
  const node = made("p", "note");
  node.textContent = text;
  return node;
}
