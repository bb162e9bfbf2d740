// Loads the texts of another language before the page starts, which reads them at once. A file of its own: the content
// security policy allows no inline script.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem('tidemark.locale');
  } catch {
    // storage is blocked: English it is
  }
  if (chosen === null || !/^[a-z]{2,3}(-[A-Z]{2})?$/.test(chosen)) return;
  document.documentElement.lang = chosen;
  // a script that is added in any other way does not hold up those after it
  document.write(
    '<script src="' + new URL('locales/' + chosen + '.js', document.currentScript.src).href + '"></script>',
  );
})();
