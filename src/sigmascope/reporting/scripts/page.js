// Assembles the page.

function createTheme() {
  const button = byId("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
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

function start() {
  const content = readDocument();
  const { networks } = content;
  const choice = createChoice(networks);
  createTheme();
  byId("cards").replaceChildren(...cardsOf(content));
  byId("colophon").textContent =
    `Written by sigmascope ${content.sigmascope}. This page is self-contained and loads nothing.`;
  byId("estimator").textContent = estimatorText(content);
  createRemarks(content);
  createPicker(byId("picker"), networks, choice);
  createNetworkTable(networks);
  createSiteTables(networks);
  createSettings(networks, content.settings);

  const signatures = createSignatureChart(networks, choice);
  const drawDensityChart = createDensityChart(networks, content.densities, choice);
  const drawDistanceChart = createDistanceChart(networks, content.distances);
  choice.onChange(signatures.draw);
  choice.onChange(drawDensityChart);
  createWalk(networks, choice, signatures);
  choice.reset();
  drawDistanceChart();
  onWidth(() => [signatures.draw, drawDensityChart, drawDistanceChart].forEach((draw) => draw()));
  addEventListener("hashchange", openTarget);
  openTarget();
}

start();
