import js from '@eslint/js';
import reactHooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

/** What users read: attributes of elements, and properties of notifications, commands and the like. */
const SHOWN =
  '/^(alt|aria-label|caption|data-label|description|label|message|none|note|placeholder|problem|text|title)$/';
const IN_CATALOGUE = 'Texts are of the catalogue: t(…), plural(…) or rich(…) of src/texts.';
const INLINE_TEXTS = [
  // code is the same in all languages, and so is our name
  'JSXElement:not([openingElement.name.name=/^(code|kbd|pre)$/]) > JSXText[value=/[A-Za-z]{2}/]:not([value=/^\\s*Tidemark\\s*$/])',
  'JSXFragment > JSXText[value=/[A-Za-z]{2}/]',
  ...[
    `JSXAttribute[name.name=${SHOWN}] > `,
    `JSXAttribute[name.name=${SHOWN}] > JSXExpressionContainer > `,
    `JSXAttribute[name.name=${SHOWN}] > JSXExpressionContainer > ConditionalExpression > `,
    'JSXElement > JSXExpressionContainer > ConditionalExpression > ',
    `Property[key.name=${SHOWN}] > `,
  ].flatMap((where) => [
    `${where}Literal[value=/^(?!--|tidemark |[a-z.-]+: ).*([A-Za-z] [A-Za-z]|^[A-Z][a-z])/]`,
    `${where}TemplateLiteral[quasis.0.value.raw=/[A-Za-z] |^[A-Z][a-z]/]`,
  ]),
].map((selector) => ({ selector, message: IN_CATALOGUE }));

export default tseslint.config(
  { ignores: ['dist', 'node_modules', 'public/locales', 'src/gen'] },
  js.configs.recommended,
  {
    files: ['**/*.{ts,tsx}'],
    extends: [...tseslint.configs.strictTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
    },
  },
  { files: ['src/**/*.{ts,tsx}'], ...reactHooks.configs.flat.recommended },
  {
    files: ['src/**/*.{ts,tsx}'],
    ignores: [
      'src/**/*.test.{ts,tsx}',
      'src/model/testData.ts',
      // what nobody reads
      'src/model/pipeline/{diff,document,jsonPatch,test*}.ts',
    ],
    rules: { 'no-restricted-syntax': ['error', ...INLINE_TEXTS] },
  },
  {
    // the model is pure: no framework, no browser, no clock
    files: ['src/model/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', 'window', 'document', 'localStorage', 'fetch', 'setTimeout', 'setInterval'],
      'no-restricted-imports': [
        'error',
        { patterns: ['react*', '@mantine/*', '../api/*', '../store/*', '../hooks/*'] },
      ],
    },
  },
  {
    files: ['dev/**/*.mjs', 'public/*.js', '*.js'],
    languageOptions: {
      globals: {
        Buffer: 'readonly',
        URL: 'readonly',
        console: 'readonly',
        document: 'readonly',
        localStorage: 'readonly',
        process: 'readonly',
        setInterval: 'readonly',
        clearInterval: 'readonly',
        window: 'readonly',
      },
    },
  },
);
