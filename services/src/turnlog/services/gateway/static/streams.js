// An event stream that is open only while its tab is visible. A browser allows six connections for each
// origin over all tabs, so a background tab closes its stream and opens it again when it is shown.

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
