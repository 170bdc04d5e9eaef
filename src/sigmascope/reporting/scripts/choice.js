// The selected networks, each with a color and a symbol; the others are gray.

const SLOTS = 8;
const SYMBOLS = [
  d3.symbolCircle,
  d3.symbolSquare2,
  d3.symbolTriangle2,
  d3.symbolDiamond2,
  d3.symbolPlus,
  d3.symbolTimes,
  d3.symbolAsterisk,
  d3.symbolSquare,
];
const slotColor = (slot) => `var(--slot-${slot})`;

function createChoice(networks) {
  const slots = Array(SLOTS).fill(null);
  const listeners = [];
  const changed = () => listeners.forEach((listener) => listener());

  function assign(chosen) {
    slots.fill(null);
    chosen.forEach((network, slot) => (slots[slot] = network));
    changed();
  }

  function toggle(network) {
    const slot = slots.indexOf(network);
    if (slot >= 0) slots[slot] = null;
    else slots[slots.indexOf(null)] = network;
    changed();
  }

  return {
    assign,
    toggle,
    reset: () => assign(firstChoice(networks)),
    isFull: () => !slots.includes(null),
    slotOf: (network) => slots.indexOf(network),
    chosen: () => slots.filter((network) => network !== null),
    onChange: (listener) => listeners.push(listener),
  };
}

const hasScores = (network) => network.summary.median != null;

const byMedian = (networks) => networks.filter(hasScores).sort((a, b) => a.summary.median - b.summary.median);

// All networks, or of many the lowest, middle and highest median.
function firstChoice(networks) {
  if (networks.length <= SLOTS) return networks.filter(hasScores);
  const sorted = byMedian(networks);
  return [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted[sorted.length - 1]].filter(Boolean);
}

function symbolOf(slot) {
  const color = slotColor(Math.max(slot, 0));
  const svg = svgPart("svg", { viewBox: "-7 -7 14 14", "aria-hidden": "true", class: "symbol" });
  svg.append(svgPart("path", { d: slot < 0 ? "" : d3.symbol(SYMBOLS[slot], 44)(), stroke: color, fill: color }));
  return svg;
}

function createPick(network, choice) {
  const box = element("input", { type: "checkbox" });
  const mark = element("span", { class: "mark" });
  const row = element("label", { class: "pick" }, box, mark, named(network.name));
  box.addEventListener("change", () => choice.toggle(network));

  function update() {
    const slot = choice.slotOf(network);
    const alone = choice.chosen().length === 1; // then colors stand for places in a block
    box.checked = slot >= 0;
    box.disabled = slot < 0 && choice.isFull();
    row.classList.toggle("chosen", slot >= 0);
    mark.replaceChildren(symbolOf(alone ? -1 : slot));
  }

  return { network, row, update };
}

function createPicker(home, networks, choice) {
  const picks = networks.map((network) => createPick(network, choice));
  const count = element("span", { role: "status" });
  const legend = element("legend", { class: "unseen" }, "Networks in color");
  const list = element("fieldset", {}, legend, ...picks.map(({ row }) => row));
  const clear = buttonOf("Clear", () => choice.assign([]));
  const tools = element("div", { class: "tools" }, count, clear, buttonOf("Reset", choice.reset));
  home.replaceChildren(...(networks.length > 12 ? [filterOf(picks)] : []), list, tools);
  choice.onChange(() => {
    picks.forEach(({ update }) => update());
    const limit = networks.length > SLOTS ? `, at most ${SLOTS}` : "";
    count.textContent = `${choice.chosen().length} of ${networks.length} selected${limit}`;
  });
}

function filterOf(picks) {
  const attributes = { type: "search", placeholder: "Filter", "aria-label": "Filter networks", autocomplete: "off" };
  const filter = element("input", attributes);
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const { network, row } of picks) row.hidden = !network.name.toLowerCase().includes(wanted);
  });
  return filter;
}

function buttonOf(text, action) {
  const button = element("button", { type: "button" }, text);
  button.addEventListener("click", action);
  return button;
}
