"""The public page: which model runs on which image, from records, locks and the catalogue.

Nothing is measured or judged again here. The page is one HTML file that needs no script, with a
badge for each image beside it.
"""
