"""The kinds of value that ops exchange, one file each; `base.Value` lists the questions that all of them answer."""
