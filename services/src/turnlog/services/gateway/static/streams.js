// A stream of events, open while somebody looks. A browser lends one place six connections for all
// its tabs, so a tab in the background lets go of its own, and asks again when it is looked at.

export function stream(address, listeners) {
  let source = null;

  function look() {
    if (document.hidden) letGo();
    else if (!source) open();
  }

  function open() {
    source = new EventSource(address());
    for (const [name, take] of Object.entries(listeners)) source.addEventListener(name, take);
  }

  function letGo() {
    source?.close();
    source = null;
  }

  document.addEventListener("visibilitychange", look);
  look();
  return {
    close: () => {
      document.removeEventListener("visibilitychange", look);
      letGo();
    },
  };
}
