// Makes every text of the page some 40 % longer and gives it accents, as another language might; run in the browser.
// Texts, accessible names and placeholders, also those that come later. Data stays: ids, numbers, code and logs.
() => {
  const DATA =
    "script, style, pre, code, textarea, [contenteditable], [role='log'], .tm-mono";
  const NAMES = ["aria-label", "title", "placeholder", "alt"];
  const ACCENTS = {
    a: "å", c: "ç", e: "ë", i: "ï", n: "ñ", o: "ö", s: "š", u: "ü", y: "ÿ", z: "ž",
    A: "Å", C: "Ç", E: "Ë", I: "Ï", N: "Ñ", O: "Ö", S: "Š", U: "Ü", Y: "Ÿ", Z: "Ž",
  };
  // Vowels are doubled until a word is long enough; one without any ends in more letters
  const longerWord = (word) => {
    let missing = Math.ceil(word.length * 0.4);
    let made = "";
    for (const letter of word) {
      const accented = ACCENTS[letter] ?? letter;
      made += accented;
      if (missing > 0 && /[aeiouy]/.test(letter)) {
        made += accented;
        missing -= 1;
      }
    }
    return made + "é".repeat(missing);
  };
  const isData = (word) => word.length > 40 || /[0-9/:=_\\]|\.\w/.test(word);
  // what stands around a word stays around it
  const longer = (text) =>
    text.replace(/\S+/g, (word) =>
      isData(word) ? word : word.replace(/\p{L}{2,}/gu, longerWord),
    );

  const made = new WeakMap();
  const lengthenText = (node) => {
    if (node.parentElement === null || node.parentElement.closest(DATA)) return;
    if (made.get(node) === node.nodeValue) return;
    const text = longer(node.nodeValue);
    made.set(node, text);
    if (text !== node.nodeValue) node.nodeValue = text;
  };
  const lengthenNames = (element) => {
    const known = made.get(element) ?? {};
    made.set(element, known);
    for (const name of NAMES) {
      const value = element.getAttribute(name);
      if (value === null || known[name] === value) continue;
      known[name] = longer(value);
      element.setAttribute(name, known[name]);
    }
  };
  const lengthen = (root) => {
    if (root.nodeType === Node.TEXT_NODE) lengthenText(root);
    if (root.nodeType !== Node.ELEMENT_NODE) return;
    const all = document.createTreeWalker(
      root,
      NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT,
    );
    for (let node = root; node !== null; node = all.nextNode()) {
      if (node.nodeType === Node.TEXT_NODE) lengthenText(node);
      else lengthenNames(node);
    }
  };
  lengthen(document.body);
  new MutationObserver((changes) => {
    for (const { type, target, addedNodes } of changes) {
      if (type === "characterData") lengthenText(target);
      else if (type === "attributes") lengthenNames(target);
      else addedNodes.forEach(lengthen);
    }
  }).observe(document.body, {
    subtree: true,
    childList: true,
    characterData: true,
    attributeFilter: NAMES,
  });
};
