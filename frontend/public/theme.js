// Sets the colour scheme before the first paint. A file of its own: the content security policy allows no inline script.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem('mantine-color-scheme-value');
  } catch {
    // storage is blocked: the system's scheme it is
  }
  var dark = chosen === 'dark' || (chosen !== 'light' && window.matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.setAttribute('data-mantine-color-scheme', dark ? 'dark' : 'light');
})();
