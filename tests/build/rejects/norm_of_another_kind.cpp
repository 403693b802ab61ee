// says: normplace: this placement is made for one kind of norm, its norm_kind, and this is another
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/catalogue.hpp>

normplace::Encoder<normplace::NGPT, float> encoder({.layers = 1, .width = 4, .heads = 1, .feed_forward = 4});
