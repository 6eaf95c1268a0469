"""Why a plan is as it is: boundaries taken away by force, techniques left out."""
