// A field whose value leaves the browser only sealed: a libsodium sealed box to the organisation's public key. It has no
// name, so that its form does not send what is typed; the form gets the box when it collects its data.

import { createElement, useEffect, useRef, useState } from "react";

// Loaded with the first such field: the library is larger than the page.
let loaded;
const load = async () => {
  loaded ??= import("libsodium-wrappers").then(async ({ default: sodium }) => (await sodium.ready, sodium));
  return await loaded;
};

const isJson = (text) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** The box of a value at its place, as `runyard variables seal` makes it; JSON stays as it is typed. */
function seal(sodium, publicKey, place, text) {
  const [, kind, , isHcl] = place;
  const value = kind === "input" && !isHcl && isJson(text) ? text : JSON.stringify(text);
  const inside = `{"place": ${JSON.stringify(place)}, "value": ${value}}`;
  const { ORIGINAL } = sodium.base64_variants;
  const box = sodium.crypto_box_seal(sodium.from_string(inside), sodium.from_base64(publicKey, ORIGINAL));
  return sodium.to_base64(box, ORIGINAL);
}

/** Makes the organisation's key on a click inside it: the private half becomes a file of this browser, `onMade` gets the public one. */
export function SealingKey({ onMade, children }) {
  const make = async () => {
    const sodium = await load();
    const { publicKey, privateKey } = sodium.crypto_box_keypair();
    const written = (key) => sodium.to_base64(key, sodium.base64_variants.ORIGINAL);
    const href = URL.createObjectURL(new Blob([`${written(privateKey)}\n`]));
    Object.assign(document.createElement("a"), { href, download: "sealing.key" }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
    onMade(written(publicKey));
  };
  return createElement("span", { onClick: make }, children);
}

export function SealedValue({ field, publicKey, path, kind, name }) {
  const typed = useRef(null);
  const [sodium, setSodium] = useState(null);
  useEffect(() => {
    load().then((found) => setSodium(() => found));
  }, []);
  useEffect(() => {
    const input = typed.current;
    const collect = ({ formData }) => {
      const named = (formData.get("name") ?? name).trim();
      const place = [path, kind === "hcl" ? "input" : kind, named, kind === "hcl"];
      formData.set("place", JSON.stringify(place));
      formData.set("box", sodium && input.value ? seal(sodium, publicKey, place, input.value) : "");
    };
    const { form } = input;
    form.addEventListener("formdata", collect);
    return () => form.removeEventListener("formdata", collect);
  }, [sodium, publicKey, path, kind, name]);
  const input = createElement("textarea", {
    id: field,
    ref: typed,
    rows: 5,
    disabled: sodium === null,
    className: "rt-reset rt-TextAreaInput ry-mono",
    spellCheck: false,
    autoComplete: "off",
  });
  return createElement("div", { className: "rt-TextAreaRoot rt-r-size-2 rt-variant-surface" }, input);
}
