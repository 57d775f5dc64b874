"""What can be bought: instance types, their capacity, prices, offerings without capacity."""
