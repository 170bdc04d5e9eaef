// Formulas that are wider than the page scroll; the keyboard must be able to reach them.
window.addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  for (const formula of document.querySelectorAll("mjx-container[display], td mjx-container")) {
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
  }
});
