"""What sums of products cost: matrix products, convolutions and recurrent layers."""
