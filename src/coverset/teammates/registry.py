"""Methods by name: a new one is one file, and one line here if it is built in."""

from typing import Any

from coverset.extending import class_name, load_class
from coverset.settings import build_checked
from coverset.teammates.method import Method

METHODS = {
    "lbrdiv": "coverset.teammates.methods.lbrdiv:LBRDiv",
    "brdiv": "coverset.teammates.methods.brdiv:BRDiv",
    "lipo": "coverset.teammates.methods.lipo:LIPO",
    "lipo-max": "coverset.teammates.methods.lipo_max:LIPOMax",
    "growing": "coverset.teammates.methods.growing:Growing",
    "independent": "coverset.teammates.methods.independent:Independent",
    "mep": "coverset.teammates.methods.mep:MEP",
    "trajedi": "coverset.teammates.methods.trajedi:TrajeDi",
    "fcp": "coverset.teammates.methods.fcp:FCP",
    "comedi": "coverset.teammates.methods.comedi:CoMeDi",
    "adversity": "coverset.teammates.methods.adversity:Adversity",
    "lbrdiv-guarded": "coverset.teammates.methods.lbrdiv_guarded:GuardedLBRDiv",
    "other-play": "coverset.teammates.methods.other_play:OtherPlay",
    "rotate": "coverset.teammates.methods.rotate:ROTATE",
    "maven": "coverset.teammates.methods.maven:MAVEN",
    "edrqn": "coverset.teammates.methods.edrqn:EDRQN",
}


def method_class(name: str) -> type[Method]:
    """The class of a method by its name, its entry point in the group `coverset.methods`, or as `module:Class`."""
    return load_class("method", name, METHODS, Method)


def method_name(method: Method) -> str:
    """The name under which `method_class` finds this method's class again."""
    return class_name(type(method), METHODS, "method")


def make_method(name: str, **settings: Any) -> Method:
    """A method with its own settings."""
    return build_checked(method_class(name), settings)
