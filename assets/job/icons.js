// Lucide icons (ISC licence) as data: drawn with createElementNS, so that no markup is ever parsed at run time.
const SHAPES = {
  "arrow-down-to-line": [["path", {"d": "M12 17V3"}], ["path", {"d": "m6 11 6 6 6-6"}], ["path", {"d": "M19 21H5"}]],
  "ban": [["circle", {"cx": "12", "cy": "12", "r": "10"}], ["path", {"d": "M4.929 4.929 19.07 19.071"}]],
  "chevron-down": [["path", {"d": "m6 9 6 6 6-6"}]],
  "chevron-right": [["path", {"d": "m9 18 6-6-6-6"}]],
  "chevron-up": [["path", {"d": "m18 15-6-6-6 6"}]],
  "circle-check": [["circle", {"cx": "12", "cy": "12", "r": "10"}], ["path", {"d": "m16 9-5.5 5.5L8 12"}]],
  "circle-dashed": [["path", {"d": "M10.1 2.182a10 10 0 0 1 3.8 0"}], ["path", {"d": "M13.9 21.818a10 10 0 0 1-3.8 0"}], ["path", {"d": "M17.609 3.721a10 10 0 0 1 2.69 2.7"}], ["path", {"d": "M2.182 13.9a10 10 0 0 1 0-3.8"}], ["path", {"d": "M20.279 17.609a10 10 0 0 1-2.7 2.69"}], ["path", {"d": "M21.818 10.1a10 10 0 0 1 0 3.8"}], ["path", {"d": "M3.721 6.391a10 10 0 0 1 2.7-2.69"}], ["path", {"d": "M6.391 20.279a10 10 0 0 1-2.69-2.7"}]],
  "circle-dot": [["circle", {"cx": "12", "cy": "12", "r": "1"}], ["circle", {"cx": "12", "cy": "12", "r": "10"}]],
  "circle-x": [["circle", {"cx": "12", "cy": "12", "r": "10"}], ["path", {"d": "m15 9-6 6"}], ["path", {"d": "m9 9 6 6"}]],
  "clock": [["circle", {"cx": "12", "cy": "12", "r": "10"}], ["path", {"d": "M12 6v6l4 2"}]],
  "download": [["path", {"d": "M12 15V3"}], ["path", {"d": "M21 15v4a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2v-4"}], ["path", {"d": "m7 10 5 5 5-5"}]],
  "hand": [["path", {"d": "M18 11V6a2 2 0 0 0-2-2a2 2 0 0 0-2 2"}], ["path", {"d": "M14 10V4a2 2 0 0 0-2-2a2 2 0 0 0-2 2v2"}], ["path", {"d": "M10 10.5V6a2 2 0 0 0-2-2a2 2 0 0 0-2 2v8"}], ["path", {"d": "M18 8a2 2 0 1 1 4 0v6a8 8 0 0 1-8 8h-2c-2.8 0-4.5-.86-5.99-2.34l-3.6-3.6a2 2 0 0 1 2.83-2.82L7 15"}]],
  "history": [["path", {"d": "M3 12a9 9 0 1 0 9-9 9.75 9.75 0 0 0-6.74 2.74L3 8"}], ["path", {"d": "M3 3v5h5"}], ["path", {"d": "M12 7v5l4 2"}]],
  "loader-circle": [["path", {"d": "M21 12a9 9 0 1 1-6.219-8.56"}]],
  "maximize-2": [["path", {"d": "M15 3h6v6"}], ["path", {"d": "m21 3-7 7"}], ["path", {"d": "m3 21 7-7"}], ["path", {"d": "M9 21H3v-6"}]],
  "minimize-2": [["path", {"d": "m14 10 7-7"}], ["path", {"d": "M20 10h-6V4"}], ["path", {"d": "m3 21 7-7"}], ["path", {"d": "M4 14h6v6"}]],
  "search": [["path", {"d": "m21 21-4.34-4.34"}], ["circle", {"cx": "11", "cy": "11", "r": "8"}]],
  "skip-forward": [["path", {"d": "M21 4v16"}], ["path", {"d": "M6.029 4.285A2 2 0 0 0 3 6v12a2 2 0 0 0 3.029 1.715l9.997-5.998a2 2 0 0 0 .003-3.432z"}]],
  "triangle-alert": [["path", {"d": "m21.73 18-8-14a2 2 0 0 0-3.48 0l-8 14A2 2 0 0 0 4 21h16a2 2 0 0 0 1.73-3"}], ["path", {"d": "M12 9v4"}], ["path", {"d": "M12 17h.01"}]],
  "unplug": [["path", {"d": "m19 5 3-3"}], ["path", {"d": "m2 22 3-3"}], ["path", {"d": "M6.3 20.3a2.4 2.4 0 0 0 3.4 0L12 18l-6-6-2.3 2.3a2.4 2.4 0 0 0 0 3.4Z"}], ["path", {"d": "M7.5 13.5 10 11"}], ["path", {"d": "M10.5 16.5 13 14"}], ["path", {"d": "m12 6 6 6 2.3-2.3a2.4 2.4 0 0 0 0-3.4l-2.6-2.6a2.4 2.4 0 0 0-3.4 0Z"}]],
  "wrap-text": [["path", {"d": "m16 16-3 3 3 3"}], ["path", {"d": "M3 12h14.5a1 1 0 0 1 0 7H13"}], ["path", {"d": "M3 19h6"}], ["path", {"d": "M3 5h18"}]],
  "scroll-text": [["path", {"d": "M15 12h-5"}], ["path", {"d": "M15 8h-5"}], ["path", {"d": "M19 17V5a2 2 0 0 0-2-2H4"}], ["path", {"d": "M8 21h12a2 2 0 0 0 2-2v-1a1 1 0 0 0-1-1H11a1 1 0 0 0-1 1v1a2 2 0 1 1-4 0V5a2 2 0 1 0-4 0v2a1 1 0 0 0 1 1h3"}]],
  "x": [["path", {"d": "M18 6 6 18"}], ["path", {"d": "m6 6 12 12"}]],
};

const SVG = "http://www.w3.org/2000/svg";

/** Draws an icon; `size` is "", "s", "xs" or "l", `extra` more class names. */
export function icon(name, size = "s", extra = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `ry-i ${size} ${extra}`.trim());
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  for (const [tag, attributes] of SHAPES[name] ?? []) {
    const shape = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
    svg.append(shape);
  }
  return svg;
}
