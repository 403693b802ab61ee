// says: normplace: a placement must say whether the stack ends in a norm
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/residual_block.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + f(norm(x));
};

// The block explains its placement itself: who writes one need not call explain_placement.
ResidualBlock<Mine, FeedForward<float>> block({.width = 8, .feed_forward = 16});
