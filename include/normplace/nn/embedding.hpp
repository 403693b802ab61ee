// SPDX-License-Identifier: BSD-3-Clause
//
// Token and position embedding: x_{b,s} = E[token_{b,s}] + P[s].
#pragma once

#include <tuple>

#include <normplace/detail/check.hpp>
#include <normplace/nn/initializer.hpp>
#include <normplace/nn/parameters.hpp>

namespace normplace {

/// Token ids (B, S).
using Tokens = xt::xtensor<int, 2, xt::layout_type::row_major>;

namespace detail {
inline void require_token(const char* who, const char* what, int token, std::size_t vocabulary) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary)
        throw std::invalid_argument(std::string(who) + ": " + what + " " + std::to_string(token) +
                                    " is not in a vocabulary of " + std::to_string(vocabulary));
}
}  // namespace detail

struct EmbeddingOptions {
    std::size_t vocabulary = 0;  ///< V
    std::size_t width = 0;       ///< D
    std::size_t positions = 0;   ///< the longest sequence; 0: no position table
};

template <class T>
class Embedding {
public:
    using Scalar = T;
    using Options = EmbeddingOptions;

    struct Table {
        Matrix<T> weight;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("weight", self.weight));
        }
    };
    struct Gradients {
        Table token, position;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("token_embedding", self.token), named("position_embedding", self.position));
        }
    };

    Table token;     ///< E (V, D)
    Table position;  ///< P (positions, D), or empty

    Embedding() = default;
    /// @throws std::invalid_argument when the vocabulary or the width is 0
    explicit Embedding(const Options& options) {
        detail::require_positive("Embedding", "vocabulary", options.vocabulary);
        detail::require_positive("Embedding", "width", options.width);
        token.weight.resize({options.vocabulary, options.width});
        token.weight.fill(T(0));
        if (options.positions == 0) return;
        position.weight.resize({options.positions, options.width});
        position.weight.fill(T(0));
    }

    std::size_t vocabulary() const { return token.weight.shape()[0]; }
    std::size_t width() const { return token.weight.shape()[1]; }

    void initialize(const Initializer& initializer) {
        initializer.draw(token.weight, Role::embedding);
        if (position.weight.size()) initializer.draw(position.weight, Role::embedding);
    }

    /// tokens (B, S) -> x (B, S, D)
    /// @throws std::invalid_argument when a token is not in the vocabulary, or a sequence longer than the position
    /// table
    void forward(const Tokens& tokens, Activations<T>& x) const {
        check(tokens);
        const std::size_t length = tokens.shape()[1], d = width();
        detail::reshape(x, {tokens.shape()[0], length, d});
        for (std::size_t r = 0; r < tokens.size(); ++r) {
            const T* row = token.weight.data() + static_cast<std::size_t>(tokens.data()[r]) * d;
            T* out = x.data() + r * d;
            std::copy(row, row + d, out);
            if (position.weight.size() == 0) continue;
            const T* place = position.weight.data() + r % length * d;
            for (std::size_t i = 0; i < d; ++i) out[i] += place[i];
        }
    }

    /// Adds dx (B, S, D) to the rows of the tables that forward read.
    void backward(const Tokens& tokens, const Activations<T>& dx, Gradients& gradients) const {
        check(tokens);
        const std::size_t length = tokens.shape()[1], d = width();
        detail::require_shape("Embedding", "dx", dx, {tokens.shape()[0], length, d});
        detail::require_shape("Embedding", "gradients", gradients.token.weight, detail::shape_of(token.weight));
        detail::require_shape("Embedding", "gradients", gradients.position.weight, detail::shape_of(position.weight));
        for (std::size_t r = 0; r < tokens.size(); ++r) {
            const T* in = dx.data() + r * d;
            T* row = gradients.token.weight.data() + static_cast<std::size_t>(tokens.data()[r]) * d;
            for (std::size_t i = 0; i < d; ++i) row[i] += in[i];
            if (position.weight.size() == 0) continue;
            T* place = gradients.position.weight.data() + r % length * d;
            for (std::size_t i = 0; i < d; ++i) place[i] += in[i];
        }
    }

private:
    void check(const Tokens& tokens) const {
        for (const int id : tokens.storage()) detail::require_token("Embedding", "token", id, vocabulary());
        if (position.weight.size())
            detail::require(tokens.shape()[1] <= position.weight.shape()[0], "Embedding", [&] {
                return "a sequence of " + std::to_string(tokens.shape()[1]) + " tokens is longer than the " +
                       std::to_string(position.weight.shape()[0]) + " positions";
            });
    }
};

}  // namespace normplace
