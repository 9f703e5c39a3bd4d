"use strict";
(() => {
  // The slider through the history of a shard: to the state whose place it stands at.
  const slider = document.getElementById("slider");
  if (slider) {
    const states = slider.dataset.states.split(" ");
    const form = slider.form;
    const label = form.querySelector(".state");
    slider.addEventListener("input", () => { label.textContent = "State " + states[slider.value]; });
    slider.addEventListener("change", () => { form.elements.seqno.value = states[slider.value]; form.submit(); });
  }
  // The same in a report, which holds its pictures.
  const frames = document.getElementById("frames");
  if (frames) {
    const all = [...document.querySelectorAll(".frame")];
    const label = frames.parentElement.querySelector(".state");
    frames.addEventListener("input", () => {
      all.forEach((frame, at) => { frame.hidden = at !== Number(frames.value); });
      label.textContent = all[frames.value].dataset.name;
    });
  }
  // What the pointer is at, as text below the drawing.
  document.querySelectorAll(".drawing").forEach((figure) => {
    const detail = figure.querySelector(".detail");
    if (!detail) return;
    const rest = [...detail.childNodes];
    figure.addEventListener("pointerover", (event) => {
      const shape = event.target.closest("svg.spine rect");
      const title = shape && shape.querySelector("title");
      if (title) detail.textContent = title.textContent.split("\n").join(" · ");
    });
    figure.querySelector("svg").addEventListener("pointerleave", () => { detail.replaceChildren(...rest); });
  });
  // A question takes a moment when Spark starts.
  document.querySelectorAll("form[data-busy]").forEach((form) => {
    form.addEventListener("submit", () => {
      const button = form.querySelector("button");
      button.textContent = form.dataset.busy;
      button.setAttribute("aria-busy", "true");
    });
  });
})();
