// What is wrong with the layout of the page as it is shown: a list of sentences, empty if nothing is. Run in the browser.
// Sticky and fixed parts (header, navigation, drawer, dialog) lie over the rest on purpose: each is compared within itself.
() => {
  const problems = [];
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) {
    problems.push(
      `the page is ${root.scrollWidth} px wide in a window of ${window.innerWidth} px`,
    );
  }

  const POPUPS =
    '[role="menu"], [role="listbox"], [role="tooltip"], [role="dialog"]';
  const layerOf = (element) => {
    for (let each = element; each !== null; each = each.parentElement) {
      if (
        ["fixed", "sticky"].includes(getComputedStyle(each).position) ||
        each.matches(POPUPS)
      )
        return each;
    }
    return root;
  };
  // what is left of a rectangle when its scrolling ancestors have cut it
  const visiblePart = (element, box, isText) => {
    let { left, top, right, bottom } = box;
    for (
      let each = element;
      each !== null && each !== document.body;
      each = each.parentElement
    ) {
      const style = getComputedStyle(each);
      if (style.visibility === "hidden" || style.opacity === "0") return null;
      if (style.clipPath !== "none") return null;
      if (style.overflow !== "visible" && (each !== element || isText)) {
        const clip = each.getBoundingClientRect();
        left = Math.max(left, clip.left);
        top = Math.max(top, clip.top);
        right = Math.min(right, clip.right);
        bottom = Math.min(bottom, clip.bottom);
      }
      if (style.position === "fixed") break;
    }
    return right - left > 1 && bottom - top > 1
      ? { left, top, right, bottom }
      : null;
  };
  const name = (element) =>
    (element.getAttribute("aria-label") ?? element.textContent ?? "")
      .trim()
      .slice(0, 40) || element.outerHTML.slice(0, 80);
  const overlaps = (a, b) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return across > 2 && down > 2;
  };
  const compare = (things, what) => {
    things.forEach((a, index) => {
      for (const b of things.slice(index + 1)) {
        if (
          a.layer !== b.layer ||
          a.element.contains(b.element) ||
          b.element.contains(a.element) ||
          share(a.element, b.element)
        )
          continue;
        if (overlaps(a.box, b.box))
          problems.push(
            `${what} overlap: “${name(a.element)}” and “${name(b.element)}”`,
          );
      }
    });
  };
  const thing = (element, box, isText) => {
    // what is in a closed <details> has a place, and is not drawn
    if (!element.checkVisibility()) return [];
    const visible = visiblePart(element, box, isText);
    return visible === null
      ? []
      : [{ element, box: visible, layer: layerOf(element) }];
  };

  // a field and the button within it
  const share = (a, b) =>
    a.closest(".mantine-Input-wrapper") !== null &&
    a.closest(".mantine-Input-wrapper") === b.closest(".mantine-Input-wrapper");
  // a graph is panned under its controls and its map: what is in it is compared with itself
  const inCanvas = (element) => element.closest(".react-flow") !== null;
  const graphOf = (element) => element.closest(".react-flow__viewport");
  const interactive =
    'a[href], button, input, select, textarea, [role="tab"], [role="menuitem"], [role="option"]';
  const controls = [...document.querySelectorAll(interactive)].filter(
    (each) => !inCanvas(each),
  );
  compare(
    controls.flatMap((each) =>
      thing(each, each.getBoundingClientRect(), false),
    ),
    "controls",
  );

  // words that a control cuts off, and does not say so by an ellipsis
  const cutWithin = (control, element, box) => {
    for (let each = element; ; each = each.parentElement) {
      const style = getComputedStyle(each);
      if (style.textOverflow === "ellipsis") return false;
      const clip = each.getBoundingClientRect();
      if (
        style.overflowX !== "visible" &&
        (box.right > clip.right + 1 || box.left < clip.left - 1)
      )
        return true;
      if (each === control) return false;
    }
  };

  // words that something hides which neither scrolls nor says so by an ellipsis
  const isLost = (element, box) => {
    for (
      let each = element;
      each !== null && each !== document.body;
      each = each.parentElement
    ) {
      const style = getComputedStyle(each);
      if (
        style.clipPath !== "none" ||
        style.visibility === "hidden" ||
        style.opacity === "0" ||
        style.textOverflow === "ellipsis" ||
        style.webkitLineClamp !== "none" ||
        ["auto", "scroll"].includes(style.overflowX) ||
        each.matches(".react-flow, .tm-visually-hidden, [aria-hidden='true']")
      )
        return false;
      if (["hidden", "clip"].includes(style.overflowX)) {
        const clip = each.getBoundingClientRect();
        if (clip.width > 1 && box.right > clip.right + 2) return true;
      }
      if (style.position === "fixed") break;
    }
    return false;
  };

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const words = [];
  const wordsOfGraphs = [];
  while (texts.nextNode()) {
    const { currentNode: node } = texts;
    const element = node.parentElement;
    if (
      node.textContent.trim() === "" ||
      element === null ||
      (inCanvas(element) && graphOf(element) === null) ||
      element.closest("svg, script, style")
    )
      continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const list = inCanvas(element) ? wordsOfGraphs : words;
    const control = element.closest(interactive);
    for (const box of range.getClientRects()) {
      const shown = thing(element, box, true);
      list.push(...shown);
      if (
        shown.length > 0 &&
        control !== null &&
        cutWithin(control, element, box)
      )
        problems.push(`“${name(control)}” is cut off by its own edge`);
      if (control === null && isLost(element, box))
        problems.push(`“${name(element)}” is cut off and cannot be scrolled to`);
    }
  }
  // the label of an edge has a background, which hides what lies under it
  for (const label of document.querySelectorAll(
    ".react-flow__edgelabel-renderer > *",
  ))
    wordsOfGraphs.push(...thing(label, label.getBoundingClientRect(), false));
  // a column that leaves its words a letter or two a line
  for (const cell of document.querySelectorAll("td, th")) {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const lines = new Set(
      [...range.getClientRects()].map((box) => Math.round(box.top)),
    );
    const { width } = cell.getBoundingClientRect();
    if (width > 0 && width < 56 && lines.size > 3)
      problems.push(
        `a column ${Math.round(width)} px wide: “${name(cell)}” takes ${lines.size} lines`,
      );
  }
  // lines of one text touch
  const apart = (things) =>
    things.map((each) => ({
      ...each,
      box: { ...each.box, top: each.box.top + 2, bottom: each.box.bottom - 2 },
    }));
  compare(apart(words), "texts");
  compare(
    apart(wordsOfGraphs).map((each) => ({
      ...each,
      layer: graphOf(each.element),
    })),
    "texts of a graph",
  );
  return [...new Set(problems)];
};
