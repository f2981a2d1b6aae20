"""Small parts for products that embed wfcore, by the name of the software that they are for."""
