(function () {
  "use strict";
  var form = document.getElementById("search");
  var field = document.getElementById("q");
  var said = document.getElementById("found");
  if (!form) return;
  form.hidden = false;
  var rows = [].slice.call(document.querySelectorAll("[data-row]"));
  var folds = [].slice.call(document.querySelectorAll("details.older"));
  function text(row) {
    return (row.getAttribute("data-row") + " " + row.textContent).toLowerCase();
  }
  var texts = rows.map(text);
  function search() {
    var words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    var count = 0;
    rows.forEach(function (row, at) {
      var hit = words.every(function (word) { return texts[at].indexOf(word) >= 0; });
      row.hidden = !hit;
      if (hit) count += 1;
    });
    [].forEach.call(document.querySelectorAll("[data-group]"), function (group) {
      group.hidden = words.length > 0 && !group.querySelector("[data-row]:not([hidden])");
    });
    if (words.length) folds.forEach(function (fold) { fold.open = true; });
    said.textContent = words.length ? count + " of " + rows.length + " rows match" : "";
  }
  field.addEventListener("input", search);
  form.addEventListener("submit", function (event) { event.preventDefault(); });
})();
