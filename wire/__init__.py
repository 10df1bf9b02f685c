"""The code in HCL, tokens and error answers on which dashboard, runner and command line must agree; every wheel ships it."""
