"""What the functions of `tilewright` give: results that print themselves, show themselves in a
notebook, and hand out their figures as tables. A module for each, so that none loads the others'.
"""
