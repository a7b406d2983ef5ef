// Sets the chosen colour scheme before anything is painted; loaded first and without delay (M92).
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // a browser without storage follows the system
}
