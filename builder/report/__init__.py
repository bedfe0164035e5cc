"""Records, gate verdicts and patches for their readers: one module per format.

In go the frozen values that other stages made; out come the terminal's tables, Markdown, JUnit,
SARIF and one HTML page. Nothing is measured or decided here.
"""
