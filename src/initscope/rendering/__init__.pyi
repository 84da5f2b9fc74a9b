# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .figures import (
    angle_figure as angle_figure,
)
from .overviews import (
    columns_figure as columns_figure,
    contact_sheet as contact_sheet,
    render_overview as render_overview,
)
from .page import (
    render_page as render_page,
    write_page as write_page,
)
from .rows import (
    render_result as render_result,
)
