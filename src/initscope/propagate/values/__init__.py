"""The kinds of value that ops pass on, one file each; `base.Value` lists the questions that all of them answer."""
