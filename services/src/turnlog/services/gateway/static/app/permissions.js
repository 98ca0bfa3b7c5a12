// What the person at the page may do, as the service says. What one may not do is not shown; it would be refused.

let principal = null;

export function setPrincipal(found) {
  principal = found;
  document.body.classList.toggle("reads-only", !mayDo("sessions:write"));
  document.body.classList.toggle("sees-no-prompts", !mayDo("prompts:read"));
}

// Before the service has said who one is, and where it cannot, everything is shown.
export const mayDo = (permission) => principal === null || principal.permissions.includes(permission);

// Whether a session is another user's, who lets one read it and do no more.
export function isSharedToRead({ owner, shares }) {
  const user = principal?.user;
  return Boolean(user) && owner !== user && !mayDo("sessions:all") && shares.some((share) => share.user === user && share.access === "read");
}
