"""People in arrays of any library that follows the Array API standard, on the device where they live."""
