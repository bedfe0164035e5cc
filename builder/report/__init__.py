"""Records and findings in, one document per format out: terminal, JUnit, Markdown, HTML, SARIF."""
