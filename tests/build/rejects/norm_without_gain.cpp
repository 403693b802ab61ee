// says: normplace: this placement starts a norm's gain at another number than 1, and UnitNorm has no gain.
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/residual_block.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

ResidualBlock<SwinV2, FeedForward<float>, UnitNorm<float>> block({.width = 4, .feed_forward = 4});
