// SPDX-License-Identifier: BSD-3-Clause
//
// The model of which predictions and measurements speak: a stack of encoder layers, a readout, and the mean token
// cross-entropy, at initialization.
#pragma once

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>

#include <normplace/placement/activation.hpp>
#include <normplace/placement/initialization.hpp>
#include <normplace/placement/norm_kind.hpp>

namespace normplace {

/// The reference model. Unless a `TokenBatch` is given, its tokens are x0 ~ N(0, I_D), independent, with targets
/// uniform over the vocabulary. Weights are drawn by `initialization`, biases are 0, norm gains 1; the readout is V x D
/// with variance 1/D; a final norm stands before it exactly where the placement says so.
struct ReferenceModel {
    std::size_t layers = 12;          ///< L
    std::size_t width = 256;          ///< D
    std::size_t heads = 4;            ///< H
    std::size_t feed_forward = 1024;  ///< F
    std::size_t sequence = 32;        ///< S
    std::size_t batch = 4;            ///< B
    std::size_t vocabulary = 1000;    ///< V
    bool causal = false;
    NormKind norm = NormKind::layer_norm;  ///< where the placement has none of its own
    double epsilon = 1e-5;                 ///< inside the norm's square root
    Activation activation = relu;
    Initialization initialization = Initialization::xavier();
    bool output_projection = true;  ///< false: no W_o, as in Xiong et al. 2020's theory

    /// The model of Xiong et al. 2020, section 3: one head, uniform attention (W_q = W_k = 0) without W_o, feed-forward
    /// matrices D x D.
    static ReferenceModel paper(std::size_t layers, std::size_t width, std::size_t sequence) {
        ReferenceModel model;
        model.layers = layers;
        model.width = width;
        model.heads = 1;
        model.feed_forward = width;
        model.sequence = sequence;
        model.batch = 1;
        model.initialization = Initialization::paper();
        model.output_projection = false;
        return model;
    }

    /// @throws std::invalid_argument when a size is 0, D is not divisible by H, or epsilon is not positive
    void check() const {
        const auto positive = [](const char* what, std::size_t value) {
            if (value == 0)
                throw std::invalid_argument(std::string("ReferenceModel: ") + what + " is 0, expected at least 1");
            if (value > static_cast<std::size_t>(std::numeric_limits<int>::max()))
                throw std::invalid_argument(std::string("ReferenceModel: ") + what + " is " + std::to_string(value) +
                                            ", expected at most " + std::to_string(std::numeric_limits<int>::max()));
        };
        positive("layers", layers);
        positive("width", width);
        positive("heads", heads);
        positive("feed_forward", feed_forward);
        positive("sequence", sequence);
        positive("batch", batch);
        positive("vocabulary", vocabulary);
        if (width % heads != 0)
            throw std::invalid_argument("ReferenceModel: width " + std::to_string(width) + " is not divisible by " +
                                        std::to_string(heads) + " heads");
        if (!(epsilon > 0.0 && epsilon < std::numeric_limits<double>::infinity()))
            throw std::invalid_argument("ReferenceModel: epsilon " + std::to_string(epsilon) +
                                        " is not positive and finite");
    }
};

}  // namespace normplace
