// A page about trainings that are under way loads itself again; what the reader chose is kept.

const CALM = 2000; // milliseconds without a touch of mouse or keyboard before a reload

// In the history entry of this page: it survives a reload, also of a file on disk, and nothing else.
const remembered = () => history.state?.sigmascope ?? {};

function remember(memory) {
  history.replaceState({ ...history.state, sigmascope: memory }, "");
}

const openDetails = () => [...document.querySelectorAll("details[open][id]")].map(({ id }) => id);

function restore({ open = [], focus, top }) {
  for (const id of open) if (byId(id)) byId(id).open = true;
  if (focus) byId(focus)?.focus({ preventScroll: true });
  history.scrollRestoration = "manual";
  if (top != null) scrollTo({ top, behavior: "instant" });
}

function followText({ state, every, updated }) {
  const when = updated == null ? "" : ` The file last changed on ${new Date(updated * 1000).toLocaleString("en")}.`;
  if (state !== "under way") return `${state[0].toUpperCase()}${state.slice(1)}: this page does not reload.${when}`;
  return `Under way: this page reloads every ${every} s.${when}`;
}

function createFollowing(follow, view) {
  const home = byId("following");
  const text = element("span", {}, followText(follow));
  home.hidden = false;
  const look = follow.state === "under way" ? "state live" : "state";
  home.replaceChildren(element("span", { class: look, "aria-hidden": "true" }), text);
  const kept = remembered();
  if (follow.state === "under way") home.append(createPause(follow, view, kept.paused));
  restore(kept); // when everything has its height
}

function createPause(follow, view, pausedBefore) {
  let paused = Boolean(pausedBefore);
  let touched = -CALM;
  const button = buttonOf("", () => {
    paused = !paused;
    label();
  });
  button.id = "pause";
  const label = () => (button.textContent = paused ? "Resume" : "Pause");
  for (const kind of ["pointermove", "pointerdown", "keydown", "wheel", "touchmove"])
    addEventListener(kind, () => (touched = performance.now()), { passive: true });

  const memory = () => ({
    ...view.memory(),
    paused,
    theme: document.documentElement.dataset.theme,
    open: openDetails(),
    focus: document.activeElement?.id,
    top: scrollY,
  });
  setInterval(() => {
    if (paused || document.hidden || performance.now() - touched < CALM) return;
    remember(memory());
    location.reload();
  }, follow.every * 1000);
  label();
  return button;
}
