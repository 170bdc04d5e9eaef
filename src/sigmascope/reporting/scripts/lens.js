// What the pointer or the slider points at: a ring around a point, its line, and a note beside it.

const REACH = 40; // pixels

// A note over a figure, shown and hidden together with marks. These are on a layer of their own: in the figure they would
// repaint thousands of points with every move.
function createNote(stage, ...marks) {
  const tip = element("div", { class: "tip", "aria-hidden": "true" });
  const layer = svgPart("svg", { class: "layer", "aria-hidden": "true" });
  const all = [tip, ...marks];
  let figure;

  function mount(drawn) {
    figure = drawn;
    for (const name of ["viewBox", "width", "height"]) layer.setAttribute(name, figure.getAttribute(name));
    layer.replaceChildren(...marks);
    stage.replaceChildren(figure, layer, tip);
    hide();
  }

  function hide() {
    all.forEach((part) => part.classList.remove("shown"));
  }

  function show(point, lines) {
    const said = lines.filter(([, text]) => text);
    tip.replaceChildren(...said.map(([role, text]) => element("div", { class: role || null }, named(text))));
    all.forEach((part) => part.classList.add("shown"));
    putBeside(tip, stage, figure, point);
  }

  return { mount, show, hide };
}

// Places the note beside the point, on the side with more room, inside the stage.
function putBeside(tip, stage, figure, { x, y }) {
  const scale = figure.clientWidth / figure.viewBox.baseVal.width || 1;
  const left = x * scale;
  const beside = left > stage.clientWidth / 2 ? left - tip.offsetWidth - 14 : left + 14;
  const across = Math.max(0, Math.min(beside, stage.clientWidth - tip.offsetWidth));
  const down = Math.max(0, Math.min(y * scale - tip.offsetHeight / 2, stage.clientHeight - tip.offsetHeight));
  tip.style.transform = `translate(${across}px, ${down}px)`;
}

function followPointer(figure, follow, leave, pick) {
  const at = (event) => follow(...d3.pointer(event, figure));
  if (pick) figure.addEventListener("click", (event) => pick(...d3.pointer(event, figure)));
  figure.addEventListener("pointermove", at);
  figure.addEventListener("pointerdown", at); // a finger does not hover
  figure.addEventListener("pointerleave", leave);
}

// Describes the nearest of many points. When the selection or the width changes, the lens is attached to the new figure.
// A click on it calls `pick`.
function createLens(stage, describe, pick) {
  const trace = svgPart("path", { class: "trace" });
  const ring = svgPart("circle", { class: "ring", r: 6 });
  const note = createNote(stage, trace, ring);
  let lineOf;

  function show(point) {
    trace.setAttribute("d", lineOf(point));
    ring.setAttribute("transform", `translate(${point.x},${point.y})`);
    note.show(point, describe(point));
  }

  function attach(figure, points, drawnLine) {
    lineOf = drawnLine;
    const mesh = d3.Delaunay.from(
      points,
      (point) => point.x,
      (point) => point.y,
    );
    const nearest = (x, y) => {
      const found = points[mesh.find(x, y)];
      return found && Math.hypot(found.x - x, found.y - y) <= REACH ? found : null;
    };
    const follow = (x, y) => {
      const found = nearest(x, y);
      figure.classList.toggle("pickable", Boolean(pick && found));
      if (found) show(found);
      else note.hide();
    };
    const open = (x, y) => nearest(x, y) && pick(nearest(x, y));
    followPointer(figure, follow, note.hide, pick && open);
    note.mount(figure);
  }

  return { attach, show, hide: note.hide };
}
