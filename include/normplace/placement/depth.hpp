// SPDX-License-Identifier: BSD-3-Clause
//
// Where in a stack something stands: which layer of how many, in which sublayer, in which role.
// Everything in a placement that is not the same everywhere is a function of these.
#pragma once

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>

namespace normplace {

/// The two sublayers of a Transformer layer, the third of a decoder's, and a user's own.
enum class SublayerKind { attention, cross_attention, feed_forward, other };

/// What a weight matrix is for. `linear1` and `linear2` are the papers' W_1 and W_2.
enum class Role { query, key, value, out, linear1, linear2, embedding, readout, other };

/// Whether a stack stands alone, or is one half of an encoder-decoder.
enum class StackKind { alone, encoder, decoder };

/// A sublayer's place in its stack. One layer = attention sublayer + feed-forward sublayer, so a stack of `layers`
/// layers has 2 * layers sublayers.
struct Depth {
    std::size_t layer = 1;   ///< l, counted from 1 as the papers do
    std::size_t layers = 1;  ///< L
    SublayerKind sublayer = SublayerKind::other;
    StackKind stack = StackKind::alone;
    std::size_t other_layers = 0;  ///< of the other stack of an encoder-decoder
    /// The sum of E f(x)^2 over the stack's sublayers before this one; NaN where nobody has said.
    double earlier_branches = std::numeric_limits<double>::quiet_NaN();

    /// How many sublayers of the stack stand before this one: a decoder's layer has three, another's two.
    constexpr std::size_t sublayers_before() const {
        const std::size_t each = stack == StackKind::decoder ? 3 : 2;
        const std::size_t within = sublayer == SublayerKind::feed_forward      ? each - 1
                                   : sublayer == SublayerKind::cross_attention ? 1
                                                                               : 0;
        return each * (layer - 1) + within;
    }

    /// @throws std::invalid_argument unless 1 <= layer <= layers
    constexpr void check() const {
        if (layer < 1 || layer > layers)
            throw std::invalid_argument("Depth: layer " + std::to_string(layer) + " is not one of the layers 1 to " +
                                        std::to_string(layers));
    }
};

}  // namespace normplace
