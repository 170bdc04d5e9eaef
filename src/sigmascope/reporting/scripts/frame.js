// What every page has: two themes, and charts that follow its width.

function createTheme() {
  const button = byId("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  if (remembered().theme) root.dataset.theme = remembered().theme;
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const label = () => (button.textContent = isDark() ? "Light theme" : "Dark theme");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  dark.addEventListener("change", label);
  label();
}

// Charts depend on the width of the page, not on its height.
function onWidth(draw) {
  let width = 0;
  let frame = 0;
  new ResizeObserver(([{ contentRect }]) => {
    if (Math.abs(contentRect.width - width) < 1) return;
    width = contentRect.width;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(draw);
  }).observe(byId("main"));
}
