// Scrolls an element into sight and leaves the keyboard where it is. `Element.scrollIntoView` also moves
// the place from which the Tab key goes on, which is right only for what the reader asked to see.

export function scrollIntoSight(element) {
  const style = getComputedStyle(element);
  for (let holder = element.parentElement; holder; holder = holder.parentElement) {
    if (holder.scrollHeight > holder.clientHeight || holder.scrollWidth > holder.clientWidth) {
      const inner = element.getBoundingClientRect();
      const outer = getVisibleBox(holder);
      const margin = (side) => parseFloat(style[`scrollMargin${side}`]);
      holder.scrollTop += measureShift(inner.top - margin("Top"), inner.bottom + margin("Bottom"), outer.top, outer.bottom);
      holder.scrollLeft += measureShift(inner.left - margin("Left"), inner.right + margin("Right"), outer.left, outer.right);
    }
  }
}

// The document scrolls behind the window; everything else behind its own box.
function getVisibleBox(holder) {
  if (holder === document.scrollingElement) return { top: 0, left: 0, bottom: innerHeight, right: innerWidth };
  return holder.getBoundingClientRect();
}

// How far to scroll so that as much as possible is seen, and no further.
function measureShift(start, end, from, to) {
  if (start < from && end < to) return Math.max(start - from, end - to);
  if (end > to && start > from) return Math.min(end - to, start - from);
  return 0;
}
