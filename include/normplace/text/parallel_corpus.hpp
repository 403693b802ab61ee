// SPDX-License-Identifier: BSD-3-Clause
//
// Sentences and their translations, read from two files of one sentence a line: line i of one is the translation of
// line i of the other. What does not fit is refused with the file and the line, because a corpus that has slipped by
// one line still trains.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace normplace {

struct ParallelCorpus {
    std::vector<std::string> source;
    std::vector<std::string> target;  ///< of the same size
    std::size_t empty = 0;            ///< pairs of the files with an empty side, skipped or kept

    std::size_t size() const { return source.size(); }
};

/// What to do with a pair of which one side, or both, have nothing but spaces.
enum class EmptySentences {
    skip,  ///< for training: there is nothing to learn from such a pair
    keep   ///< for a test set: its score is over all lines of the file
};

namespace detail {

/// The length of the UTF-8 sequence that `text` begins with; 0 when there is none. Overlong forms, surrogates and
/// values above U+10FFFF are none (Unicode, table 3-7).
inline std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[i])) : 0u;
    };
    const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
    const unsigned first = byte(0), second = byte(1);
    if (text.empty()) return 0;
    if (first < 0x80u) return 1;
    if (first < 0xc2u || first > 0xf4u || !continues(1)) return 0;
    if (first < 0xe0u) return 2;
    if ((first == 0xe0u && second < 0xa0u) || (first == 0xedu && second > 0x9fu) || !continues(2)) return 0;
    if (first < 0xf0u) return 3;
    if ((first == 0xf0u && second < 0x90u) || (first == 0xf4u && second > 0x8fu) || !continues(3)) return 0;
    return 4;
}

inline bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

inline bool is_blank(std::string_view text) { return text.find_first_not_of(" \t") == text.npos; }

inline std::string whole_file(const std::string& file) {
    std::error_code error;
    if (std::filesystem::is_directory(file, error)) throw std::runtime_error(file + " is a directory");
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw std::runtime_error(file + " cannot be opened");
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    if (stream.bad()) throw std::runtime_error(file + " cannot be read");
    if (text.starts_with("\x1f\x8b")) throw std::runtime_error(file + " is compressed: unpack it with gunzip first");
    if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
    if (text.empty()) throw std::runtime_error(file + " is empty");
    return text;
}

}  // namespace detail

/// The lines of a file in UTF-8, without their ends, "\n" or "\r\n"; the last line may lack its own. A byte order mark
/// at the beginning is not part of the text.
/// @throws std::runtime_error when the file cannot be read, is empty or compressed, or a line is not UTF-8
inline std::vector<std::string> read_lines(const std::string& file) {
    const std::string text = detail::whole_file(file);
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::string line = text.substr(begin, end - begin);
        if (line.ends_with('\r')) line.pop_back();
        if (!detail::is_utf8(line))
            throw std::runtime_error(file + ": line " + std::to_string(lines.size() + 1) + " is not valid UTF-8");
        lines.push_back(std::move(line));
        begin = end + 1;
    }
    return lines;
}

/// @throws std::runtime_error as read_lines, when the files' numbers of lines differ, and when every pair is skipped
inline ParallelCorpus read_parallel_corpus(const std::string& source_file, const std::string& target_file,
                                           EmptySentences empty = EmptySentences::skip) {
    std::vector<std::string> source = read_lines(source_file), target = read_lines(target_file);
    if (source.size() != target.size())
        throw std::runtime_error(source_file + " has " + std::to_string(source.size()) + " lines and " + target_file +
                                 " has " + std::to_string(target.size()) +
                                 ": line i of one must be the translation of line i of the other");
    ParallelCorpus corpus;
    for (std::size_t i = 0; i < source.size(); ++i) {
        const bool blank = detail::is_blank(source[i]) || detail::is_blank(target[i]);
        if (blank) ++corpus.empty;
        if (blank && empty == EmptySentences::skip) continue;
        corpus.source.push_back(std::move(source[i]));
        corpus.target.push_back(std::move(target[i]));
    }
    if (corpus.size() == 0)
        throw std::runtime_error(source_file + " and " + target_file + " have no pair of which neither side is empty");
    return corpus;
}

}  // namespace normplace
