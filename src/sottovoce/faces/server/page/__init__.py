"""The page: the service in a browser. Rendered here, with no script or style from anywhere else."""

from sottovoce.faces.server.page.routes import install_page

__all__ = ["install_page"]
