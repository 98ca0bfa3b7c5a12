// An event stream that is open only while its tab is visible. A browser allows six connections for each
// origin over all tabs, so a background tab closes its stream and opens it again when it is shown.

export function openEventSource(address, listeners) {
  let source = null;

  function updateSource() {
    if (document.hidden) closeSource();
    else if (!source) openSource();
  }

  function openSource() {
    source = new EventSource(address());
    for (const [name, handle] of Object.entries(listeners)) source.addEventListener(name, handle);
  }

  function closeSource() {
    source?.close();
    source = null;
  }

  document.addEventListener("visibilitychange", updateSource);
  updateSource();
  return {
    close: () => {
      document.removeEventListener("visibilitychange", updateSource);
      closeSource();
    },
  };
}
