// SPDX-License-Identifier: BSD-3-Clause
//
// Token and position embedding: x_{b,s} = scale E[token_{b,s}] + P[s], with P learned, or the sinusoids of Vaswani et
// al. 2017 (arXiv:1706.03762, section 3.5), which are no parameters:
//
//     P[s][2i] = sin(s / 10000^(2i/D)),   P[s][2i+1] = cos(s / 10000^(2i/D))
#pragma once

#include <cmath>
#include <tuple>

#include <normplace/detail/check.hpp>
#include <normplace/detail/kernels.hpp>
#include <normplace/detail/parallel.hpp>
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

enum class PositionKind { learned, sinusoidal };

struct EmbeddingOptions {
    std::size_t vocabulary = 0;  ///< V
    std::size_t width = 0;       ///< D
    std::size_t positions = 0;   ///< the longest sequence; 0: no position table
    double scale = 1.0;          ///< of the token's row; sqrt(D) in Vaswani et al. 2017, section 3.4
    PositionKind position_kind = PositionKind::learned;
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
    Table position;  ///< P (positions, D) where it is learned, or empty

    Embedding() = default;
    /// @throws std::invalid_argument when the vocabulary or the width is 0, or the positions of sinusoids, or the scale
    /// is not a positive number
    explicit Embedding(const Options& options) : scale_(static_cast<T>(options.scale)) {
        detail::require_positive("Embedding", "vocabulary", options.vocabulary);
        detail::require_positive("Embedding", "width", options.width);
        detail::require(options.scale > 0.0 && std::isfinite(options.scale), "Embedding", [&] {
            return "scale is " + detail::number_text(options.scale) + ", expected a positive number";
        });
        token.weight.resize({options.vocabulary, options.width});
        token.weight.fill(T(0));
        if (options.position_kind == PositionKind::sinusoidal) {
            detail::require_positive("Embedding", "positions", options.positions);
            make_sinusoids(options.positions);
        } else if (options.positions > 0) {
            position.weight.resize({options.positions, options.width});
            position.weight.fill(T(0));
        }
    }

    std::size_t vocabulary() const { return token.weight.shape()[0]; }
    std::size_t width() const { return token.weight.shape()[1]; }

    void initialize(const Initializer& initializer) {
        initializer.draw(token.weight, Role::embedding);
        if (position.weight.size()) initializer.draw(position.weight, Role::embedding);
    }

    /// tokens (B, S) -> x (B, S, D). The first token of each sequence stands at `first_position`: not at 0 where the
    /// tokens before it were embedded earlier.
    /// @throws std::invalid_argument when a token is not in the vocabulary, or a sequence longer than the position
    /// table
    void forward(const Tokens& tokens, Activations<T>& x, std::size_t first_position = 0) const {
        check(tokens, first_position);
        const std::size_t length = tokens.shape()[1], d = width();
        detail::reshape(x, {tokens.shape()[0], length, d});
        const Matrix<T>& places = positions();
        const bool has_places = places.size() > 0;
        const auto body = [&](std::size_t begin, std::size_t end, std::size_t) {
            for (std::size_t r = begin; r < end; ++r) {
                detail::Term<T> terms[2] = {{scale_, row_of(token.weight, tokens, r)}};
                if (has_places) terms[1] = {T(1), places.data() + (first_position + r % length) * d};
                NORMPLACE_KERNEL(combine, terms, std::size_t{has_places ? 2u : 1u}, x.data() + r * d, std::size_t{0},
                                 d);
            }
        };
        detail::parallel_ranges(tokens.size(), static_cast<double>(x.size()), body);
    }

    /// Adds dx (B, S, D), times the scale for a token, to the rows of the tables that forward read.
    void backward(const Tokens& tokens, const Activations<T>& dx, Gradients& gradients,
                  std::size_t first_position = 0) const {
        check(tokens, first_position);
        const std::size_t length = tokens.shape()[1], d = width();
        detail::require_shape("Embedding", "dx", dx, {tokens.shape()[0], length, d});
        detail::require_shape("Embedding", "gradients", gradients.token.weight, detail::shape_of(token.weight));
        detail::require_shape("Embedding", "gradients", gradients.position.weight, detail::shape_of(position.weight));
        // Split by columns, because tokens share rows; each entry's sum has its tokens' order on any number of threads.
        const auto body = [&](std::size_t begin, std::size_t end, std::size_t) {
            for (std::size_t r = 0; r < tokens.size(); ++r) {
                const T* in = dx.data() + r * d;
                add(scale_, in, row_of(gradients.token.weight, tokens, r), begin, end);
                if (position.weight.size())
                    add(T(1), in, gradients.position.weight.data() + (first_position + r % length) * d, begin, end);
            }
        };
        detail::parallel_ranges(d, static_cast<double>(dx.size()), body);
    }

private:
    const Matrix<T>& positions() const { return sinusoids_.size() ? sinusoids_ : position.weight; }

    template <class Weight>
    static auto row_of(Weight& weight, const Tokens& tokens, std::size_t r) {
        return weight.data() + static_cast<std::size_t>(tokens.data()[r]) * weight.shape()[1];
    }
    /// to += factor from, in columns [begin, end)
    static void add(T factor, const T* from, T* to, std::size_t begin, std::size_t end) {
        const detail::Term<T> terms[] = {{T(1), to}, {factor, from}};
        NORMPLACE_KERNEL(combine, terms, std::size_t{2}, to, begin, end - begin);
    }

    void make_sinusoids(std::size_t count) {
        sinusoids_.resize({count, width()});
        for (std::size_t s = 0; s < count; ++s)
            for (std::size_t i = 0; i < width(); ++i) {
                const double exponent = static_cast<double>(i / 2 * 2) / static_cast<double>(width());
                const double angle = static_cast<double>(s) / std::pow(10000.0, exponent);
                sinusoids_(s, i) = static_cast<T>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
            }
    }

    void check(const Tokens& tokens, std::size_t first_position) const {
        for (const int id : tokens.storage()) detail::require_token("Embedding", "token", id, vocabulary());
        const std::size_t length = tokens.shape()[1], count = positions().shape()[0];
        if (positions().size())
            detail::require(length <= count && first_position <= count - length, "Embedding", [&] {
                return "a sequence of " + std::to_string(length) + " tokens" +
                       (first_position ? " from position " + std::to_string(first_position) + " on" : "") +
                       " is longer than the " + std::to_string(count) + " positions";
            });
    }

    T scale_ = T(1);
    Matrix<T> sinusoids_;  // (positions, D), or empty
};

}  // namespace normplace
